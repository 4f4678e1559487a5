"""Tests of outputs, dead letters and what is parked."""
