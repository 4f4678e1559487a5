"""Who carries which host: decided by the leading manager, committed, and then published for the machines.

`CommittedCarriages` reads and commits them. `CarriageKeeper` decides on what machines report, has it committed, and
publishes what is committed.
"""
