"""Tests of the observed hosts and jobs."""
