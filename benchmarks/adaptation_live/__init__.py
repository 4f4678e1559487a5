"""Adaptation of running dataflows: what it keeps and spends under a wave of events, and what slower jobs save."""
