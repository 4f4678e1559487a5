"""Benchmark of the planner: its time, what planning for reuse saves, and what planned pipelines cost."""
