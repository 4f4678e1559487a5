"""Provisioning: which alternates of a dynamic dataflow run, on how many cores of which machines, and at what price.

Pure, and on its own: it knows figures, not documents, jobs or hosts. Start with `provisioning.dataflow_figures`,
`provisioning.machine_class` and `provisioning.deployment` for the records, and with `provisioning.throughput` and
`provisioning.profit` for what they are worth; `provisioning/algorithms/` has those of the thesis, a file each,
`provisioning/horizon/` Braid's own, and `provisioning/simulator/` what they are tried on.
"""
