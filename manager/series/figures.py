"""The figures of dataflows between two looks at the counters of hosts and jobs.

A dataflow has figures only if all its jobs have reported since the look before, and were known then. Otherwise it has
none, because what is not known is not zero. Once a job that was silent reports again, its growth counts, over the
seconds since its last report.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from manager.observations.reports import InstanceMeasured, Measured, StreamMeasured
from manager.planner import bridge_stream, public_id
from manager.savings.counters import SECOND, Counters, RunningSnapshot, Usage, growth, growth_base
from manager.savings.settlement import Price, Share, shares_of, split

_NO_INSTANCE, _NO_STREAM = InstanceMeasured(), StreamMeasured()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFigures:
    """What a dataflow did in some seconds; made by `dataflow_figures`, and read from the database."""

    seconds: float
    events_in: int
    """Events of its sources that its jobs took."""
    events_out: int
    """Events that reached its outputs."""
    dead: int
    """Events that became dead letters in its tasks, shared ones too."""
    waiting: int
    """Events that wait for it in spools; over a longer time the most."""
    latency_p50: float | None = None
    """The median age of events at its slowest output; over a longer time the mean."""
    latency_p99: float | None = None
    """The 99th percentile at its slowest output; over a longer time the largest."""
    cores: float | None = None
    """Its share of cores."""
    alone: float | None = None
    """The cores that it would likely have taken without sharing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedParts:
    """The parts of a dataflow whose counters make its figures; made by `counted_parts`."""

    jobs: frozenset[str]
    instances: frozenset[int]
    sinks: tuple[int, ...]
    """The instance of each sink."""
    sources: frozenset[str]
    """The raw streams that it reads."""
    streams: frozenset[str]
    """These, and the streams between its jobs."""


def counted_parts(running: RunningSnapshot, usage: Usage) -> dict[str, CountedParts]:
    """Return the parts of each dataflow."""
    bridged: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
    for bridge in running.jobs.bridges:
        bridged[bridge.parent].append((str(bridge.to), bridge_stream(bridge.parent, bridge.port)))
    parts: dict[str, CountedParts] = {}
    for submitted in running.dataflows.values():
        dataflow = public_id(submitted.id)
        jobs, sources, places = usage.homes[dataflow], usage.streams[dataflow], submitted.places
        instances = frozenset(map(int, submitted.instances))
        between = (stream for instance in instances for job, stream in bridged.get(instance, ()) if job in jobs)
        parts[dataflow] = CountedParts(
            jobs=jobs,
            instances=instances,
            sinks=tuple(places[sink] for sink in submitted.sinks),
            sources=sources,
            streams=sources.union(between),
        )
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesLook:
    """All that is known at one look; made by the writer of series."""

    counters: Counters
    usage: Usage = field(default_factory=Usage)
    parts: Mapping[str, CountedParts] = field(default_factory=dict)


def dataflow_figures(before: SeriesLook, after: SeriesLook, price: Price) -> dict[str, SeriesFigures]:
    """Return the figures of each dataflow that is known, from one look to the next."""
    grown = growth(before.counters, after.counters)
    shares: Mapping[str, Share] | None = None
    if any(grown.cpu.values()):
        shares = shares_of(split(grown, before.usage, after.usage, pace=price.pace), price)
    jobs = _JobStretches(before.counters, after.counters)
    return {
        dataflow: jobs.figures(dataflow, parts, shares)
        for dataflow, parts in after.parts.items()
        if parts.jobs <= jobs.known.keys()
    }


class _JobStretches:
    """The growth of jobs' counters between two looks."""

    def __init__(self, before: Counters, after: Counters) -> None:
        self.known: dict[str, Measured] = {}
        """The latest report of each job whose growth is known."""
        self._seconds: dict[str, float] = {}
        """The seconds that this growth took."""
        self._taken, self._dead = Counter[int](), Counter[int]()
        self._entered: dict[tuple[str, str], int] = {}
        for job, last in after.jobs.items():
            base = growth_base(before.jobs.get(job), last, since=after.since)
            if base is None or last.at <= before.at:
                continue
            self.known[job] = last
            reported = before.jobs.get(job)
            self._seconds[job] = last.at - (before.at if reported is None or reported.run != last.run else reported.at)
            for instance, did in last.instances.items():
                done = base.instances.get(instance, _NO_INSTANCE)
                self._taken[instance] += max(0, did.taken - done.taken)
                self._dead[instance] += max(0, did.dead - done.dead)
            for stream, came in last.streams.items():
                self._entered[job, stream] = max(0, came.entered - base.streams.get(stream, _NO_STREAM).entered)

    def figures(self, dataflow: str, parts: CountedParts, shares: Mapping[str, Share] | None) -> SeriesFigures:
        """The figures of a dataflow whose jobs are all known."""
        seconds = max(self._seconds[job] for job in parts.jobs)
        lasts = {job: self.known[job] for job in parts.jobs}
        outputs = [ages for last in lasts.values() for ages in last.outputs.get(dataflow, {}).values()]
        share = None if shares is None else shares.get(dataflow)
        return SeriesFigures(
            seconds=seconds,
            # Each job that reads a stream counts it.
            events_in=sum(
                max((self._entered.get((job, source), 0) for job in lasts), default=0) for source in parts.sources
            ),
            events_out=sum(self._taken[sink] for sink in parts.sinks),
            dead=sum(self._dead[instance] for instance in parts.instances),
            waiting=sum(
                max((last.streams.get(stream, _NO_STREAM).lag_events for last in lasts.values()), default=0)
                for stream in parts.streams
            ),
            latency_p50=max((ages["p50"] for ages in outputs if "p50" in ages), default=None),
            latency_p99=max((ages["p99"] for ages in outputs if "p99" in ages), default=None),
            cores=None if shares is None else 0.0 if share is None else share.cpu / SECOND / seconds,
            alone=None if shares is None else 0.0 if share is None else share.alone.likely / SECOND / seconds,
        )
