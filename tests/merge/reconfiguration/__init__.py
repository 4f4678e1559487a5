"""Tests of reconfigurations of the running graph."""
