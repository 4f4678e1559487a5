"""Tests of dynamic documents."""
