"""The clients of connectors: each takes events from somewhere outside Braid into the spool of a source.

To add a kind, write its record (see `dags.connectors`) and its client, and name the record as an entry point of the
group `braid.connectors`. `connector_run` calls clients, and says what it expects of them.
"""
