"""Outputs: samples and tails of what leaves dataflows; and dead letters."""
