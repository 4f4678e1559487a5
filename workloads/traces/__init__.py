"""Traces: which dataflow is submitted or removed when; drawn, kept in files, and printed."""
