"""Defragmentation: when to start one, what it gains and costs, and where tasks should run."""
