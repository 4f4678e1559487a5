"""Replays of traces, live on services or dry.

Begin with `workloads.replay.live_replay` or with `workloads.replay.dry_replay`.
"""
