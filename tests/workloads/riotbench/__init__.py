"""Tests of the built-in workload of RIoTBench."""
