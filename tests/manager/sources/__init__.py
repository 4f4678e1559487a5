"""Tests of sources, and of events that callers send."""
