"""Tests of answers that last: live events and outputs."""
