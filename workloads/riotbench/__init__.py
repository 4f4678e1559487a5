"""RIoTBench: the benchmark's applications as documents, its data sets, and the workload that is made of both.

Begin with `applications`, which has the documents, and with `building.riotbench`, the workload of 21 dataflows.
"""
