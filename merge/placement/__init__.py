"""Placement: which job runs the tasks that a merge starts, and on which root, where hosts do not share all files."""
