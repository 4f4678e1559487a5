"""Traces: the order in which dataflows of a workload are submitted and removed, the models that draw one, its file."""
