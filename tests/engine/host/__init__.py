"""Tests of `engine.host`."""
