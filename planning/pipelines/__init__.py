"""Pipelines: documents with open places, from their form to a planning problem and from a plan to a plain document."""
