"""Python sources that the adaptive dataflows publish as modules, a file for each dataflow.
A function takes the fields of an event and returns others; each file is whole, and imports nothing of Braid.
"""
