"""OPMW: scientific workflow templates as dataflows whose steps all compute pi.

`builtin_workload.opmw` makes 35 dataflows from a built-in repository of 70 templates with the statistics of a published
one. The command `braid opmw` imports published templates; begin with `template_import`.
"""
