"""The evidence: the experiments of the paper's section 5, replayed by `python -m workloads.evidence` into one folder.

Begin with `workloads.evidence.plan`, which lists the replays and their durations.
"""
