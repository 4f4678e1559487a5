"""Tests of which plans jobs get, and of what is shown of jobs."""
