"""Defragmentation: when jobs are scattered enough, what it would gain and cost, and where tasks should run."""
