"""Tests of the overview and of metrics."""
