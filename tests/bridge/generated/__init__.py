"""Tests of sources that make their own events."""
