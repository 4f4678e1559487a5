"""Dataflows to run and replay: the bundled examples, and RIoTBench's applications.

The examples are documents as tenants write them, over the sources that come with them.
Begin with `workloads.demo.playing`, which shows a service at work on them.
"""
