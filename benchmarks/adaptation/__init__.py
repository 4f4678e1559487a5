"""Dataflows that adapt, simulated: the experiments of a thesis, with its algorithms and Braid's own."""
