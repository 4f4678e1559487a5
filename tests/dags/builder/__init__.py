"""Tests of the builder of documents."""
