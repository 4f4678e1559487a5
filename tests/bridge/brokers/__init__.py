"""Tests of brokers that run as child processes."""
