"""Tests of dynamic documents, guards and decisions."""
