"""Streams between jobs: topics, wire format, broker, spool.

Nothing lives here yet; the engine's jobs are joined by it when they come.
It has no public function so far.
"""
