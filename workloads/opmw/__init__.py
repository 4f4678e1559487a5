"""OPMW: workflow templates of science as dataflows, whose steps all compute pi.

`drawing.opmw` makes 35 dataflows from a built-in repository of 70 templates that has the statistics of a published one.
The command `braid opmw` imports templates that were really published; begin with `importing`.
"""
