"""What sharing saves, live, and who pays for what.

Whoever leads looks every few seconds at what its hosts tell. `using` says who uses what, `growing` what was done
between two looks, `splitting` how much of that is whose, and `settling` what each minute cost whom, and what separate
execution would have taken; `metering` does this by the clock, `ledger` keeps it, and `reporting` adds it up.
"""
