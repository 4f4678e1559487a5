"""Tests of the clients of connectors, and of what runs them."""
