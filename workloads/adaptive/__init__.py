"""Dataflows of the thesis on adaptive stream processing, written with the builder: demand response in a smart grid,
a toll road, word count, and topics of tweets. Each has alternates of different value and cost, and seeded events.
Begin with `scenario`.
"""
