"""Pipelines of the paper on planning: a house to heat, a highway with an accident, and patients at risk.

Each has a folder with a pipeline, its modules and sources, and the same dataflow as plain tasks, all as JSON.
Begin with `scenario`.
"""
