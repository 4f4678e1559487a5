"""The benchmark of placement: how groups are planned, and what they cost on hosts."""
