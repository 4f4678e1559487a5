"""Tests of what is checked before a submission is committed."""
