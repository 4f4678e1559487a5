"""Replaying traces: on services that run, or dry.

Begin with `workloads.replay.live` for the one, and with `workloads.replay.dry` for the other.
"""
