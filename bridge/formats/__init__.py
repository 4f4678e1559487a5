"""The formats of a source's messages: what they are (`records`), and what reads events in them (`decoders`).

To add a format, add its record to `records.MessageFormat`, and what reads it to the table of `decoders`. Whatever the
format, the bounds are the same on messages, on events and on how deep they are nested, and all that is unfit is
reported.
"""
