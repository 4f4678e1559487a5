"""Tests of the pipelines of the paper on planning."""
