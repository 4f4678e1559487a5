"""Tests of submitting, replacing, draining and removing dataflows."""
