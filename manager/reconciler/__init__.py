"""The reconciler: hears what hosts say of their jobs, and drives both to the committed state.

What it does about a job is decided by pure functions; one thread carries it out, and no request waits for it.
Begin with `manager.reconciler.reconcile_loop`, which runs it, and `manager.reconciler.job_decisions`, which holds the rules.
"""
