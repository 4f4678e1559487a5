"""Events over REST: in, into the spools of sources, exactly once; and out, from the outputs of dataflows, live.

`EventSender` is the manager's line to the hosts that fill spools, `events_in` reads what callers send, and `Tail` is what
one of them sees of outputs.
"""
