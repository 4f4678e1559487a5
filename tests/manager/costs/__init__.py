"""Tests of what things cost on this machine, and of what to move."""
