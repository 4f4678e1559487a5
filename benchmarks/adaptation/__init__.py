"""Dataflows that adapt, simulated: the thesis' figures beside Braid's, as `make bench-adapt` prints them."""
