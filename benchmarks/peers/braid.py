"""The dataflows on Braid: a service with its default settings, as `braid serve` starts it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter

from benchmarks.documents import topic_source
from benchmarks.manager_test_bed import broker_of, wait_until_settled
from benchmarks.peers.dataflows import (
    INPUT_TOPICS,
    PEER_FIELDS,
    SOURCE_OWNER,
    PeerDataflow,
    braid_document,
    distinct_tasks,
    input_topic,
    source_name,
)
from benchmarks.peers.measurement import Running
from braid_client import Client
from braid_client.answers.tenants import TenantForm
from bridge import topics
from workloads.replay.player import read_cores
from workloads.service import served

_PATIENCE = 600.0
"""Seconds within which all dataflows have to run."""


@contextmanager
def running_braid(dataflows: Sequence[PeerDataflow], notify: Callable[[str], None]) -> Iterator[Running]:
    """Braid with the dataflows of its tenants while the context lasts."""
    with served(notify) as service:
        with service.operator() as operator:
            begun = time.monotonic()
            dataflow_of = _submitted(operator, dataflows)
            wait_until_settled(operator, within=_PATIENCE)
            notes = {
                "deployed_s": round(time.monotonic() - begun, 1),
                "tasks": sum(1 for _ in operator.running_tasks()),
                "tasks_expected": distinct_tasks(dataflows),
                "jobs": sum(1 for _ in operator.jobs()),
            }
        yield Running(
            system="braid",
            broker=broker_of(service.root),
            outputs=f"{topics.ROOT}/out/#",
            dataflow_of=dataflow_of,
            look=lambda: read_cores(service.process).used,
            notes=notes,
        )


def _submitted(operator: Client, dataflows: Sequence[PeerDataflow]) -> dict[str, int]:
    """Submit all dataflows, a tenant's together; the number of each by its output's topic."""
    operator.admit(TenantForm(name=SOURCE_OWNER))
    for topic in range(INPUT_TOPICS):
        source = topic_source(
            source_name(topic), PEER_FIELDS, topic=input_topic(topic), owner=SOURCE_OWNER, visibility="public"
        )
        operator.register_source(source)
    numbers: dict[str, int] = {}
    by_tenant = attrgetter("tenant")
    for tenant, group in groupby(sorted(dataflows, key=by_tenant), key=by_tenant):
        operator.admit(TenantForm(name=tenant))
        own = tuple(group)
        answer = operator.submit_together([braid_document(dataflow) for dataflow in own], tenant=tenant)
        for dataflow, submitted in zip(own, answer.dataflows, strict=True):
            numbers[submitted.outputs[0].topic] = dataflow.number
    return numbers
