"""The reconciler, which drives hosts and jobs to the committed state.

Pure functions decide what to do; one thread does it, and no request waits for it. Start with `reconcile_loop`, which
runs it, and `job_decisions`, which holds the rules.
"""
