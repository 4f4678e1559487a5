"""Tests of tasks that get other configs while they run."""
