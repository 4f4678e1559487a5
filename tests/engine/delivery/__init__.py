"""Tests of `engine.delivery`."""
