"""Tasks that write to or read from the outside world: tables, files, blobs, topics.

Each behaviour opens its connections for one call, so that nothing is open between batches. Only that of Kafka stays
open, because a cluster takes several questions and answers before it takes an event.
"""
