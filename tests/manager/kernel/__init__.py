"""Tests of the committed state, its committer, transitions and live events."""
