"""Tests of the dataflows of the thesis on adaptation."""
