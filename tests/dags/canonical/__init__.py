"""Tests of the canonical passes, a module per pass."""
