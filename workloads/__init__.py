"""Dataflows to run and replay: OPMW's workflows, RIoTBench's applications, and bundled examples.

A workload is replayed along a trace, which gives results, from which a report is made. Begin with `workload`, `traces`
and `results`, which have the records of the three.
"""
