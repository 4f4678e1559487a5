"""Tests of the records, states and folder of a job."""
