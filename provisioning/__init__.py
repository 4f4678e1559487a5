"""Provisioning: which alternates of a dynamic dataflow run, on how many cores of which machines, and at what price.

Pure, and on its own: it knows figures, not documents, jobs or hosts. Start with `provisioning.figures` and
`provisioning.deployment`, which have the records and what they are worth; `provisioning/algorithms/` has the algorithms
of the thesis, `provisioning/horizon/` Braid's own, and `provisioning.simulator` is what they are tried on.
"""
