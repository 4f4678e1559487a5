"""Tests of the routes of single resources."""
