"""Who carries which host: the ring of tokens, and what is decided by what is seen."""
