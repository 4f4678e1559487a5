"""Tests of what runs a manager."""
