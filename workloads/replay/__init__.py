"""Replaying traces: on services that run, or dry.

Begin with `workloads.replay.live_replay` for the one, and with `workloads.replay.dry_replay` for the other.
"""
