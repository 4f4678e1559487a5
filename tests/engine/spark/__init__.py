"""Tests of `engine.spark`."""
