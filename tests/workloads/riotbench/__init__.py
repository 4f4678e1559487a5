"""Tests of `workloads.riotbench`."""
