"""Machines: which hosts each carries, the images of these, and how many machines there are."""
