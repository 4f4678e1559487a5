"""Tests of events as JSON and as columns."""
