"""The benchmark of shards: what they gain, what they cost, and how a job changes their number while it runs."""
