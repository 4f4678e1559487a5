"""Tests of planned pipelines and modules."""
