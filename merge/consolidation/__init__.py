"""Defragmentation: how scattered the jobs are, which tasks should move, what that gains, and what it costs."""
