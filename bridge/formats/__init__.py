"""The formats of a source's messages: `decoders` has what reads the events in them.

To add a format, add its record to `dags.message_formats`, and what reads it to the table of `decoders`. Whatever the
format, messages, events and depth are bounded as those of JSON are, and all that is unfit is reported.
"""
