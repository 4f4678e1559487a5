"""Streams over REST: live events, samples of an output, and all that leaves at outputs."""
