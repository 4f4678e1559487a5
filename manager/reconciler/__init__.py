"""The reconciler: hears what hosts say of their jobs, and drives both to the committed state.

What it does about a job is decided by pure functions; one thread carries it out, and no request waits for it.
Begin with `manager.reconciler.reconciling`, which runs it, and `manager.reconciler.deciding`, which holds the rules.
"""
