"""Ring: which machine carries which host, and where the copies of a host's files are.

Pure, and on its own: it knows neither what runs nor how. Start with `ring.fleet` for the records; `ring.decision`
decides what becomes of them, `ring.tokens` in which order machines follow each other, and `ring.balance` how much of
the ring each has.
"""
