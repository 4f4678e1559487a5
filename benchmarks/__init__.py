"""Measurements: each module prints what it finds and, as its last line, one JSON object.

Figures of one run are comparable with each other; across machines only their ratios are.
Run them with `make bench`.
"""
