"""Tests of the commands that need no running service."""
