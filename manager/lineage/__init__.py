"""Lineage: what OpenLineage's receivers hear of dataflows, jobs, sources and outputs, each tenant in its own namespace.

Begin with `follower`, which compares what is committed with what was sent; `descriptions` are the events.
"""
