"""Dataflows of the thesis on adaptive stream processing, written with the builder.

They are demand response in a smart grid, a toll road, word count, and topics of tweets. Each has alternates of
different value and cost, and seeded events. Begin with `scenario`; `dataflows` has the four, and `published` the Python
sources that they publish as modules.
"""
