"""Tests of moves, isolation, quarantine, shards and paces."""
