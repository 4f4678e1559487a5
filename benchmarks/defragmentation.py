"""Consolidations on a service that runs: how long outputs stand still, and what is saved.

    python -m benchmarks.defragmentation [--quick]

A running DAG of 100 tasks over ten jobs, in a chain or all below the first, is consolidated again and again. Then
dataflows come and go, shared or not, with and without a defragmentation after each step. At last a task moves that
keeps state for a million keys. Needs mosquitto. Prints a line per measurement; the last is one JSON object.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count, pairwise
from pathlib import Path

from benchmarks.documents import row_document, topic_source
from benchmarks.instruments import Figures, percentiles, repeated, report, scratch_folder
from benchmarks.manager_test_bed import SERVICE_PACE, MeasuredService, attended_service
from braid_client import Client, Refused
from braid_client.answers.dataflows import SubmitAnswer
from braid_client.answers.sources import SourceForm

_JOBS = 10
_TASKS = 100
TIMES = 5
"""How often each running DAG is consolidated; each time tells ten interruptions."""
_PER_SECOND = 20.0
SETTLING = 3.0
"""Seconds after which what was started does nothing any more but its work."""
WHILE = 10.0
"""Seconds over which cores and latencies are measured."""
KEYS = 1_000_000
_EVENTS_PER_MESSAGE = 10_000
"""Events in a message, where there are as many as keys."""
_SPREAD = 3


def main(*, quick: bool) -> None:
    """Measure everything."""
    with scratch_folder() as folder:
        shapes = {
            shape: report(shape, consolidated(folder / shape, shape, 2 if quick else TIMES))
            for shape in ("chain", "star")
        }
        many = 4 if quick else 12
        steps = {
            mode: report(f"SEQ, {mode}", sequence(folder / mode, mode, many))
            for mode in ("default", "reuse", "reuse and defragment")
        }
        state = report("state", state_moved(folder / "state", KEYS // 10 if quick else KEYS))
    names = ("interruption_s", "cores_before", "cores_after", "latency_before_ms", "latency_after_ms")
    result = {
        **{name: shapes["chain"][name] for name in names},
        "state_moved_bytes_per_s": state["bytes_per_s"],
        "state_moved_keys_per_s": state["keys_per_s"],
        "details": {**shapes, "seq_cores": steps, "state": state},
    }
    print(json.dumps(result))


def consolidated(folder: Path, shape: str, times: int) -> Figures:
    """What it takes to consolidate a running DAG of ten jobs, and what that saves."""
    gaps, usual, moves = list[float](), list[float](), list[float]()
    cores: dict[str, list[float]] = {"before": [], "after": []}
    delays: dict[str, list[float]] = {"before": [], "after": []}

    def settle(when: str, flow: SubmitAnswer) -> None:
        time.sleep(SETTLING)
        cores[when].append(service.cores(WHILE))
        delays[when] += latencies(service, flow)

    with scattering(folder) as (service, ann, operator):
        for _ in range(times):
            flows = scattered(service, ann, shape)
            settle("before", flows[-1])
            without, with_move, seconds = defragmented(service, operator, flows)
            usual += without
            gaps += with_move
            moves.append(seconds)
            settle("after", flows[-1])
            for flow in flows:
                ann.remove(flow.id)
            service.wait(lambda: not list(operator.jobs()), "no job")
    return {
        "interruption_s": percentiles(gaps, 3),
        "longest_gap_otherwise_s": percentiles(usual, 3),
        "move_s": round(statistics.median(moves), 2),
        **{f"cores_{when}": round(statistics.median(values), 3) for when, values in cores.items()},
        **{f"latency_{when}_ms": percentiles([1_000 * s for s in values], 3) for when, values in delays.items()},
    }


def scattered(service: MeasuredService, ann: Client, shape: str) -> list[SubmitAnswer]:
    """Dataflows of which each has ten tasks more than the one before, or than the first; each in a job of its own."""
    flows = []
    for number in range(_JOBS):
        own = [(number, place) for place in range(_TASKS // _JOBS)]
        first = [(0, place) for place in range(_TASKS // _JOBS)]
        above = [(earlier, place) for earlier in range(number) for place in range(_TASKS // _JOBS)]
        tasks = [*(above if shape == "chain" else first if number else []), *own]
        flows.append(ann.submit(document("street", tasks)))
        service.first_output(flows[-1].outputs[0].topic)
    return flows


def defragmented(
    service: MeasuredService, operator: Client, flows: Sequence[SubmitAnswer]
) -> tuple[list[float], list[float], float]:
    """The longest silence of each output without and with a defragmentation, and how long that took."""
    begun = time.perf_counter()
    time.sleep(WHILE)
    requested = time.perf_counter()
    operator.defragment()
    while operator.fragmentation().move is not None:
        time.sleep(0.1)
    ended = time.perf_counter()
    time.sleep(2 * SERVICE_PACE)
    topics = [flow.outputs[0].topic for flow in flows]
    return (
        [longest(service, topic, begun, requested) for topic in topics],
        [longest(service, topic, requested, time.perf_counter()) for topic in topics],
        ended - requested,
    )


def longest(service: MeasuredService, topic: str, begun: float, ended: float) -> float:
    """The longest silence of an output within a while."""
    came = [at for at in service.outputs[topic] if begun <= at <= ended]
    return max(after - before for before, after in pairwise([begun, *came, ended]))


def latencies(service: MeasuredService, flow: SubmitAnswer) -> list[float]:
    """Seconds from when events were sent to when they came out."""
    service.events.clear()
    time.sleep(WHILE)
    return [at - event["sent"] for at, event in service.events[flow.outputs[0].topic]]


def sequence(folder: Path, mode: str, many: int) -> list[float]:
    """Cores at each step, while dataflows are submitted one after the other and then removed, both in random order."""
    draw = random.Random(7)
    paths = [[draw.randrange(_SPREAD) for _ in range(draw.randint(3, 8))] for _ in range(many)]
    cores: list[float] = []
    with scattering(folder) as (service, ann, operator):
        flows = []
        for number, path in enumerate(draw.sample(paths, many)):
            bounds = [(way, at) for at, way in enumerate(path)]
            flows.append(ann.submit(document("street", bounds, fresh=mode == "default", title=f"{number}")))
            service.first_output(flows[-1].outputs[0].topic)
            cores.append(settled(service, operator, mode))
        for flow in draw.sample(flows, many):
            ann.remove(flow.id)
            cores.append(settled(service, operator, mode))
    return cores


def state_moved(folder: Path, keys: int) -> Figures:
    """How fast a task moves that has so many keys, with what it keeps of them."""
    with scattering(folder) as (service, ann, operator):
        ann.register_source(source("keys"))
        flows = [ann.submit(counting(filters)) for filters in (1, 2)]
        jobs = {"1", "2"}
        service.wait(lambda: jobs <= {job for job, version in list(service.in_effect) if version}, "both jobs")
        for first in range(0, keys, _EVENTS_PER_MESSAGE):
            events = [{"n": number} for number in range(first, min(keys, first + _EVENTS_PER_MESSAGE))]
            service.publish("city/keys", json.dumps(events).encode())
        # Only what comes for the second time comes out, after all before it.
        service.publish("city/keys", json.dumps([{"n": keys - 1}]).encode())
        for flow in flows:
            service.first_output(flow.outputs[0].topic)
        (job,) = operator.defragment().joins
        service.wait(lambda: (job, 2) in service.in_effect, "the new job")
        seconds = service.in_effect[job, 2] - service.published[job, 2]
        recorded = max(path.stat().st_size for path in (service.root / "jobs" / job / "records").iterdir())
        service.wait(lambda: operator.fragmentation().move is None, "the end of the move")
    return {
        "keys": keys,
        "bytes": recorded,
        "seconds": round(seconds, 3),
        "keys_per_s": round(keys / seconds),
        "bytes_per_s": round(recorded / seconds),
    }


def counting(filters: int) -> Figures:
    """A source, how often each number came, filters that let what came twice through, and an output."""
    counted: dict[str, Figures] = {"count": {"type": "count", "config": {"by": ["n"]}}}
    passing = {f"t{at}": _filter("count", 2, 1e12 + at) for at in range(filters)}
    return row_document(f"counting {filters}", "keys", counted | passing)


def _filter(field: str, least: float, most: float) -> Figures:
    return {"type": "range_filter", "config": {"field": field, "min": least, "max": most}}


def settled(service: MeasuredService, operator: Client, mode: str) -> float:
    """Cores after a step, and after the defragmentation that follows it where there is one."""
    if mode == "reuse and defragment":
        # Where nothing is scattered it is refused.
        with suppress(Refused):
            operator.defragment()
        while operator.fragmentation().move is not None:
            time.sleep(0.05)
    time.sleep(SETTLING)
    return service.cores(WHILE / 2)


@contextmanager
def scattering(folder: Path) -> Iterator[tuple[MeasuredService, Client, Client]]:
    """A service that gives each residue a job of its own, and a source that sends; clients of tenant and operator."""
    with attended_service(folder, placement="launch") as (service, ann, operator), publishing(service):
        ann.register_source(source("street"))
        yield service, ann, operator


def publishing(service: MeasuredService) -> AbstractContextManager[None]:
    """Events with when they were sent, all the time."""
    numbers = count()

    def publish() -> None:
        event = {"n": next(numbers), "sent": time.perf_counter()}
        service.publish("city/street", json.dumps(event).encode())

    return repeated(publish, 1 / _PER_SECOND)


def source(name: str) -> SourceForm:
    """What the dataflows read."""
    return topic_source(name, {"n": "integer", "sent": "float"}, topic=f"city/{name}")


def document(source: str, bounds: Sequence[tuple[int, int]], *, fresh: bool = False, title: str = "bench") -> Figures:
    """A source, a filter in a row for each pair of bounds that lets everything through, and an output."""
    own = {"fresh": True} if fresh else {}
    tasks = {f"t{at}": _filter("n", -1 - a, 1e12 + b) | own for at, (a, b) in enumerate(bounds)}
    return row_document(title, source, tasks)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
