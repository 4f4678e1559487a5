"""Tests of spools and their logs."""
