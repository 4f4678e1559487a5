"""Transitions: coordinated changes of what runs that take several steps, as records, tables and pure decisions."""
