"""The events of OpenLineage: dataflows and sources in the namespace of their tenant, jobs in that of the operators.

A tenant's namespace has what the tenant may know, so also a source that others share with it, under the name that its
documents have for it, but nobody else's tasks or jobs. A job serves many, so its event names streams by their numbers.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TypeVar

from openlineage.client.event_v2 import (
    Dataset,
    DatasetEvent,
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
    StaticDataset,
)
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    RunFacet,
    datasource_dataset,
    error_message_run,
    job_type_job,
    lifecycle_state_change_dataset,
    processing_engine_run,
    schema_dataset,
    set_producer,
)

from dags.schema import Kind

_RUNS = uuid.UUID("6f3c0d0e-1b58-4d0b-9a53-3f1f5b1f7a10")
PRODUCER = f"urn:braid:{version('braid')}"
"""Names this release as the maker of the events."""
D = TypeVar("D", bound=Dataset)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageDataset:
    """A source or an output, as its tenant names it."""

    name: str
    fields: Mapping[str, Kind] | None = None
    """None if they are not known."""
    uri: str = ""
    """Where its events are; empty if that is not the tenant's to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageJob:
    """A dataflow in one revision, or a job of Spark."""

    namespace: str
    name: str
    kind: str
    """What OpenLineage calls the type of a job."""
    run: str
    """Tells its run from others: a dataflow has another one with each revision."""
    inputs: Sequence[LineageDataset] = ()
    outputs: Sequence[LineageDataset] = ()


def run_event(state: RunState, job: LineageJob, at: float, error: str = "") -> RunEvent:
    """The event that a run begins, goes on, or ends."""
    set_producer(PRODUCER)
    engine = processing_engine_run.ProcessingEngineRunFacet(
        version=version("pyspark"), name="Spark", openlineageAdapterVersion=version("braid")
    )
    facets: dict[str, RunFacet] = {"processing_engine": engine}
    if error:
        message = error_message_run.ErrorMessageRunFacet(message=error, programmingLanguage="PYTHON")
        facets["errorMessage"] = message
    kind: dict[str, JobFacet] = {
        "jobType": job_type_job.JobTypeJobFacet(processingType="STREAMING", integration="BRAID", jobType=job.kind)
    }
    return RunEvent(
        eventTime=_moment(at),
        producer=PRODUCER,
        eventType=state,
        run=Run(runId=str(uuid.uuid5(_RUNS, f"{job.namespace}/{job.run}")), facets=facets),
        job=Job(namespace=job.namespace, name=job.name, facets=kind),
        inputs=[_dataset(InputDataset, job.namespace, dataset) for dataset in job.inputs],
        outputs=[_dataset(OutputDataset, job.namespace, dataset) for dataset in job.outputs],
    )


def source_event(
    namespace: str, source: LineageDataset, change: lifecycle_state_change_dataset.LifecycleStateChange, at: float
) -> DatasetEvent:
    """The event that a source is registered, changes, or is revoked."""
    set_producer(PRODUCER)
    dataset = _dataset(StaticDataset, namespace, source)
    facet = lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(lifecycleStateChange=change)
    dataset.facets = {**(dataset.facets or {}), "lifecycleStateChange": facet}
    return DatasetEvent(eventTime=_moment(at), producer=PRODUCER, dataset=dataset)


def _dataset(kind: type[D], namespace: str, dataset: LineageDataset) -> D:
    facets: dict[str, DatasetFacet] = {}
    if dataset.fields is not None:
        fields = [
            schema_dataset.SchemaDatasetFacetFields(name=name, type=kind, ordinal_position=at)
            for at, (name, kind) in enumerate(sorted(dataset.fields.items()), 1)
        ]
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=fields)
    if dataset.uri:
        facets["dataSource"] = datasource_dataset.DatasourceDatasetFacet(name="Braid", uri=dataset.uri)
    return kind(namespace=namespace, name=dataset.name, facets=facets)


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
