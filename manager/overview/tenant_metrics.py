"""The metrics of one tenant: the states of its dataflows, and what they did in the newest step of their series."""

from collections.abc import Iterator, Mapping, Sequence

from braid_client.answers.dataflows import DataflowAnswer
from manager.overview.metrics import MetricSample
from manager.rest import metrics
from manager.series.figures import SeriesFigures

MOST_DATAFLOW_SAMPLES = 200
"""Dataflows of a tenant that have samples: those that were submitted first."""


def tenant_samples(
    dataflows: Sequence[DataflowAnswer], figures: Mapping[str, SeriesFigures], *, are_all: bool
) -> Iterator[MetricSample]:
    """Yield the samples of some dataflows; one whose figures are not known has its state alone."""
    yield MetricSample(metrics.DATAFLOWS_LEFT_OUT, (), not are_all)
    for dataflow in dataflows:
        named = (dataflow.id, dataflow.name)
        yield MetricSample(metrics.DATAFLOW_STATE, (*named, str(dataflow.state)), 1)
        if (did := figures.get(dataflow.id)) is None:
            continue
        for metric, count in (
            (metrics.DATAFLOW_IN, did.events_in),
            (metrics.DATAFLOW_OUT, did.events_out),
            (metrics.DATAFLOW_DEAD, did.dead),
        ):
            yield MetricSample(metric, named, round(count / did.seconds, 6))
        yield MetricSample(metrics.DATAFLOW_WAITING, named, did.waiting)
        for quantile, seconds in (("0.5", did.latency_p50), ("0.99", did.latency_p99)):
            if seconds is not None:
                yield MetricSample(metrics.DATAFLOW_LATENCY, (*named, quantile), seconds)
        for metric, cores in ((metrics.DATAFLOW_CORES, did.cores), (metrics.DATAFLOW_ALONE, did.alone)):
            if cores is not None:
                yield MetricSample(metric, named, cores)
