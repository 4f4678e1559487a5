"""The benchmark of receiving: what one stream of raw events costs from its topic to its spool."""
