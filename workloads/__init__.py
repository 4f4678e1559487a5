"""Dataflows to run and replay: the bundled examples, RIoTBench's applications, and OPMW with its traces later.

The examples are documents as tenants write them, over the sources that come with them.
Begin with `workloads.demo`, which shows a service at work on them.
"""
