"""Tests of dataflows with alternates in the service."""
