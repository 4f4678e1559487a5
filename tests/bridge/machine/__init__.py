"""Tests of files, locks, clocks and processes."""
