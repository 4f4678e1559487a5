"""Tests of planning problems as PDDL."""
