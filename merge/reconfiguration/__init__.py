"""Reconfigurations of what runs: the tasks that change or are copied, and the jobs that switch in step."""
