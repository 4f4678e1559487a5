"""RIoTBench: the benchmark's applications as documents.

Begin with `applications`, which has the four of them for the city data set.
"""
