"""Tests of `workloads.traces`."""
