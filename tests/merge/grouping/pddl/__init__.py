"""Tests of grouping problems as PDDL."""
