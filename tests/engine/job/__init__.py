"""Tests of `engine.job`."""
