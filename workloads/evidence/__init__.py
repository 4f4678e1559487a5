"""The evidence: the paper's section 5 replayed, by `python -m workloads.evidence`, and what comes of it in one folder.

Begin with `workloads.evidence.plan`, which says what is replayed and how long it takes.
"""
