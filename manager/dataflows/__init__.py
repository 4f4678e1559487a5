"""Dataflows: submitted alone or together, replaced, explained, shown, drained and removed."""
