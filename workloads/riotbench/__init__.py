"""RIoTBench: the benchmark's applications as documents, its data sets, and the workload made of both.

Begin with `applications`, which has the documents, and `builtin_workload.riotbench`, the workload of 21 dataflows.
"""
