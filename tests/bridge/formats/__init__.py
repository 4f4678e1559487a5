"""Tests of the formats of messages."""
