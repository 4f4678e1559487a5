"""Tests of the parts of benchmarks that decide what is measured."""
