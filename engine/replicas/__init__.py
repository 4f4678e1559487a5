"""Copies of a host's files at other machines: what is sent and in which order, its owner's side and a peer's side. An
owner waits until its peers have a file before it acts on it, so a host can go on elsewhere from any of these copies.
"""
