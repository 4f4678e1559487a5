"""Tests of traces: drawn, written and read."""
