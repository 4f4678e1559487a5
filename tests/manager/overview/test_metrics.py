"""The metrics of a manager: complete, for operators only, limited in number, and summed across restarts."""

import re
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from manager.observations.reports import InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.overview import metrics
from manager.overview.metrics import SumAccumulator, Sums
from manager.rest.metrics import METRICS
from tests.manager.overview.observed import HOST, Seen, did, instances_of, measured, observed, running, scraped
from tests.manager.rest.socket_server import serving
from tests.manager.rest.town import TENANTS, Town


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Town, Seen]]:
    with observed(tmp_path_factory.mktemp("observed")) as made:
        yield made


def _values(made: Town, name: str) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values()): sample.value for sample in scraped(made)[name].samples}


def test_every_metric_of_the_catalogue_is_exposed(living: tuple[Town, Seen]) -> None:
    """A manager that observes everything has samples of each metric and of no other, as described."""
    town, _ = living
    # In the text form the name of a counter's family goes without its ending.
    described = {each.name.removesuffix("_total"): (each.kind, each.about, set(each.labels)) for each in METRICS}
    exposed = {
        name: (family.type, family.documentation, {label for each in family.samples for label in each.labels} - {"le"})
        for name, family in scraped(town).items()
    }
    assert described == exposed


def test_names_follow_the_conventions() -> None:
    """All have one prefix, only counters end in `_total`, units are base units, and no label is reserved."""
    for metric in METRICS:
        assert re.fullmatch(r"braid(_[a-z]+)+", metric.name), metric
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric
        assert not re.search(r"_(ms|ns|milliseconds|nanoseconds|kilobytes|percent)(_|$)", metric.name), metric
        assert metric.about.endswith("."), metric
        # Prometheus calls its targets so.
        assert not {"job", "instance"} & set(metric.labels), metric
    assert len(METRICS) == len({metric.name for metric in METRICS})


def test_delays_of_reconfigurations_are_counted_by_class(living: tuple[Town, Seen]) -> None:
    """Each class counts those of all before it, as Prometheus reads histograms."""
    town, _ = living
    metrics = scraped(town)["braid_reconfiguration_delay_seconds"].samples
    counts = {each.labels["le"]: each.value for each in metrics if each.name.endswith("_bucket")}
    assert (0, 1, 2, 2) == (counts["0.25"], counts["0.5"], counts["2.5"], counts["+Inf"])
    assert [1.5] == [each.value for each in metrics if each.name.endswith("_sum")]


def test_values_are_those_of_the_reports(living: tuple[Town, Seen]) -> None:
    """Hosts and jobs have the reported values, and long states of spools are shortened."""
    town, seen = living
    job = town.places["job"]
    assert {("north", "driver"): 1.5, ("north", "jvm"): 20.0, ("north", "worker"): 4.0} == _values(
        town, "braid_host_cpu_seconds"
    )
    assert {("north", state): 1 for state in ("elsewhere", "ready", "trouble")} == _values(town, "braid_host_spools")
    assert {("north",): 4_096} == _values(town, "braid_host_spool_bytes")
    accepted, rejected = (_values(town, f"braid_source_events_{what}") for what in ("accepted", "rejected"))
    assert ({("source/1",): 40}, {("source/1",): 3}) == (accepted, rejected)
    assert {(job, "0.5"): 0.25, (job, "0.99"): 0.5} == _values(town, "braid_job_latency_seconds")
    assert 1 == _values(town, "braid_jobs")["running",]
    seen.there = (replace(HOST, alive=False),)
    assert {("north",): 0} == _values(town, "braid_host_up")
    seen.there = (HOST,)


def test_machines_and_copies_are_counted(living: tuple[Town, Seen]) -> None:
    """A machine that is gone is down; hosts count as under-replicated and without a standby by what is seen."""
    town, seen = living
    names = ("hosts_under_replicated", "hosts_without_standby", "host_behind_bytes", "machine_hosts")
    assert (machines_up(town), [value(town, name) for name in names]) == ({"north": 1, "south": 0}, [1, 1, 512, 1])
    north = seen.every_machine["north"]
    seen.every_machine["north"] = replace(north, seen=replace(north.seen, alive=False))
    assert machines_up(town) == {"north": 0, "south": 0}
    assert "braid_host_behind_bytes" not in scraped(town)


def machines_up(town: Town) -> dict[str, float]:
    return {each.labels["machine"]: each.value for each in scraped(town)["braid_machine_up"].samples}


def value(town: Town, name: str) -> float:
    """The value of the first sample of a metric."""
    return scraped(town)[f"braid_{name}"].samples[0].value


def test_sums_continue_when_a_job_restarts(living: tuple[Town, Seen]) -> None:
    """Events and CPU rise by the growth since the look before, even if the job counts from zero again."""
    town, seen = living
    job, instances = town.places["job"], instances_of(town)
    names = ("braid_job_events_in", "braid_job_events_out", "braid_task_events_in")
    before = {name: sum(_values(town, name).values()) for name in names}
    again = measured(dict.fromkeys(instances, did(2)), entered=4, left=3, run=2)
    seen.jobs[job] = running(job, again, restarts=1)
    after = {name: sum(_values(town, name).values()) for name in names}
    assert [4, 3, 20 * len(instances)] == [after[name] - before[name] for name in names]
    assert {(job,): 1} == _values(town, "braid_job_restarts")


def test_no_label_has_a_name_chosen_by_tenants(living: tuple[Town, Seen]) -> None:
    """No tenant, dataflow, source or secret is named."""
    town, _ = living
    values = {value for family in scraped(town).values() for each in family.samples for value in each.labels.values()}
    named = {*TENANTS, *town.places.values(), "Street", "street", "city:street", "warehouse"} - {town.places["job"]}
    # Dead letters are numbered, as jobs are.
    assert set() == values & {name for name in named if not name.isdecimal()}


def test_series_are_limited(living: tuple[Town, Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit only the lowest ids have samples, and the number of the others is given."""
    town, _ = living
    monkeypatch.setattr(metrics, "MOST_INSTANCE_SAMPLES", 2)
    instances = instances_of(town)
    exposed = scraped(town)
    shown = [each.labels["instance_id"] for each in exposed["braid_instance_cpu_seconds"].samples]
    left = {each.labels["of"]: each.value for each in exposed["braid_left_out"].samples}
    assert [str(each) for each in instances[:2]] == shown
    assert {"jobs": 0, "instances": len(instances) - 2, "streams": 0, "sources": 0} == left


def test_only_operators_read_metrics(living: tuple[Town, Seen]) -> None:
    """A tenant may not, and without a key nobody may, not even from the loopback address."""
    town, _ = living
    with serving(town.app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        asked = [
            client.get("/metrics", headers={"Authorization": f"Bearer {town.keys[who]}"} if who else {}).status_code
            for who in (None, "ann", "operator")
        ]
    assert [401, 403, 200] == asked


def test_metrics_are_available_as_openmetrics(living: tuple[Town, Seen]) -> None:
    """A client that asks for that format gets it complete, with the same metrics."""
    town, _ = living
    headers = {
        "Authorization": f"Bearer {town.keys['operator']}",
        "Accept": "application/openmetrics-text;version=1.0.0",
    }
    with serving(town.app) as url, httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
        answer = client.get("/metrics")
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    families = openmetrics(answer.text)  # type: ignore[no-untyped-call]  # it has no types
    assert scraped(town).keys() == {family.name for family in families}


def test_requests_are_counted_by_route(living: tuple[Town, Seen]) -> None:
    """The labels are the route and a known method, so that clients cannot make up series; each request counts once."""
    town, _ = living
    before = _values(town, "braid_http_requests")
    with serving(town.app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        headers = {"Authorization": f"Bearer {town.keys['operator']}"}
        for path in ("/v1/jobs/7", "/v1/jobs/8", "/nothing/here", "/nothing/there"):
            client.get(path, headers=headers)
        client.request("BREW", "/v1/jobs", headers=headers)
    after = _values(town, "braid_http_requests")
    grown = {labels: after[labels] - before.get(labels, 0) for labels in after if "/metrics" not in labels}
    assert {
        ("GET", "/v1/jobs/{job}", "404"): 2,
        ("GET", "other", "404"): 2,
        ("other", "/v1/jobs", "405"): 1,
    } == {labels: count for labels, count in grown.items() if count}


def test_a_manager_that_does_not_lead_has_only_its_own_metrics(living: tuple[Town, Seen]) -> None:
    """It has none that all managers share, so sums over managers count nothing twice."""
    town, _ = living
    town.tools.committer.step_down()
    try:
        exposed = scraped(town)
    finally:
        town.tools.committer.lead(1)
    assert [0.0] == [each.value for each in exposed["braid_leader"].samples]
    of_itself = {"build_info", "leader", "ready", "broker_messages_passed_over"}
    assert of_itself | {"http_requests", "http_request_duration_seconds"} == {
        name.removeprefix("braid_") for name in exposed
    }


TYPES = {1: "where", 2: "where", 3: "count"}


def job(*, run: int, done: dict[int, int], at: float = 100.0, age: float | None = None) -> JobSeen:
    """Return a job whose instances took so many events; it has read and sent as many as all of them."""
    every = sum(done.values())
    last = Measured(
        at=at,
        run=run,
        age=age,
        instances={number: InstanceMeasured(taken=taken, cpu_ns=taken) for number, taken in done.items()},
        streams={"s": StreamMeasured(entered=every)},
        left=every,
    )
    return running("1", last)


def added(*looks: dict[str, JobSeen]) -> Sums:
    adding = SumAccumulator()
    for jobs in looks:
        adding.look(jobs, TYPES, 50.0)
    return adding.sums


@given(st.lists(st.lists(st.dictionaries(st.sampled_from([1, 2, 3]), st.integers(0, 9)), max_size=4), max_size=4))
def test_sums_hold_all_growth_after_the_first_look(runs: list[list[dict[int, int]]]) -> None:
    """Whatever jobs restart and tasks come and go, nothing counts twice, and no sum falls."""
    adding, before = SumAccumulator(), 0
    adding.look({}, TYPES, 50.0)
    expected = {"where": 0, "count": 0}
    for run, growths in enumerate(runs, 1):
        done: dict[int, int] = {}
        for grown in growths:
            done = {number: done.get(number, 0) + more for number, more in (done | grown).items()}
            adding.look({"1": job(run=run, done=done, age=1.0)}, TYPES, 50.0)
            now = adding.sums.taken.total()
            assert before <= now
            before = now
        for number, taken in done.items():
            expected[TYPES[number]] += taken
    assert expected == {kind: adding.sums.taken[kind] for kind in expected}
    assert sum(expected.values()) == adding.sums.entered["1"] == adding.sums.left["1"]


def test_growth_before_the_first_look_does_not_count() -> None:
    """A new manager finds jobs that have run for long, whose counters would give a false rate."""
    old = job(run=3, done={1: 70}, age=80.0)
    assert 0 == added({"1": old}).taken["where"]
    assert 2 == added({"1": old}, {"1": job(run=3, done={1: 72}, age=81.0)}).taken["where"]


def test_the_work_of_a_job_that_is_gone_stays_in_the_sums() -> None:
    """The sums by type stay, and those of the job are no longer exposed."""
    sums = added({}, {"1": job(run=1, done={1: 5, 3: 1}, age=1.0)}, {})
    assert ({"where": 5, "count": 1}, {}) == (dict(sums.taken), dict(sums.entered))


def test_a_removed_task_is_skipped() -> None:
    """Its type is no longer known; the other tasks of its job count."""
    assert {"where": 2} == dict(added({}, {"1": job(run=1, done={1: 2, 9: 4}, age=1.0)}).taken)
