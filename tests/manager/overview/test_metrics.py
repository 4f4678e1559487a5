"""The overview and the metrics of a manager: what is counted and for whom, and sums across restarts."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from braid_client.answers.dataflows import DataflowState, Stop
from braid_client.answers.overview import JobsOverview, KindsAnswer, TroubledJobAnswer
from manager.kernel.live_events import Delays, ReconcilerActivity
from manager.observations.reports import InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.overview import metrics, use_cases
from manager.overview.metrics import SumAccumulator, Sums
from manager.overview.use_cases import MOST_TROUBLED
from manager.rest.metrics import METRICS, TENANT_METRICS
from manager.use_case import Paging
from tests.manager.managers import ANN, OPERATOR, Manager, every
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
    for metric in (*METRICS, *TENANT_METRICS):
        assert re.fullmatch(r"braid(_[a-z]+)+", metric.name), metric
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric
        assert not re.search(r"_(ms|ns|milliseconds|nanoseconds|kilobytes|percent)(_|$)", metric.name), metric
        assert metric.about.endswith("."), metric
        # Prometheus calls its targets so.
        assert not {"job", "instance"} & set(metric.labels), metric
    assert len(METRICS) + len(TENANT_METRICS) == len({metric.name for metric in (*METRICS, *TENANT_METRICS)})


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
    assert (40, 3) == (accepted["source/1",], rejected["source/1",])
    assert {("source/2",): 0, ("source/3",): 1} == _values(town, "braid_source_connected")
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
    assert {(job,): 3} == _values(town, "braid_job_events_left_out")
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


def test_a_tenant_has_metrics_of_its_own_dataflows_alone(living: tuple[Town, Seen]) -> None:
    """Each as described, with states of all, figures where they are known, and nothing of anybody else's."""
    town, _ = living
    exposed = scraped(town, "ann")
    assert {each.name: (each.kind, each.about, set(each.labels)) for each in TENANT_METRICS} == {
        name: (family.type, family.documentation, {label for each in family.samples for label in each.labels})
        for name, family in exposed.items()
    }
    mine = {row.id for row in every(lambda page: town.service.dataflows.page(ANN, page), 50)}
    samples = [sample for family in exposed.values() for sample in family.samples if sample.labels]
    assert mine == {sample.labels["dataflow"] for sample in samples}
    (rate,) = exposed["braid_dataflow_events_in_per_second"].samples
    assert (town.places["running"], 4.0) == (rate.labels["dataflow"], rate.value)
    assert [0] == [sample.value for sample in exposed["braid_dataflows_left_out"].samples]
    assert mine.isdisjoint(
        sample.labels["dataflow"]
        for family in scraped(town, "bob").values()
        for sample in family.samples
        if sample.labels
    )


def test_a_tenant_with_many_dataflows_is_told_that_some_are_left_out(
    living: tuple[Town, Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were submitted first have samples."""
    town, _ = living
    monkeypatch.setattr(use_cases, "MOST_DATAFLOW_SAMPLES", 2)
    exposed = scraped(town, "ann")
    assert 2 == len(exposed["braid_dataflow_state"].samples)
    assert [1] == [sample.value for sample in exposed["braid_dataflows_left_out"].samples]


def test_metrics_are_read_with_a_key(living: tuple[Town, Seen]) -> None:
    """Without one nobody reads them, not even from the loopback address."""
    town, _ = living
    with serving(town.app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        asked = [
            client.get("/metrics", headers={"Authorization": f"Bearer {town.keys[who]}"} if who else {}).status_code
            for who in (None, "ann", "operator")
        ]
    assert [401, 200, 200] == asked


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


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def seen(job: str, state: str = "running", **more: object) -> JobSeen:
    return JobSeen(job=job, host="north", state=state, version=9, in_effect=9, seen=NOW, **more)  # type: ignore[arg-type]


def test_everything_is_counted_for_operators_and_ones_own_for_tenants(manager: Manager) -> None:
    """Dataflows by state, tasks of their documents, and running tasks, which several of them may share."""
    shared = "s:source > a:map > k:sink"
    first, second = manager.submit("ann", shared), manager.submit("ann", shared)
    manager.submit("bob", shared)
    manager.submit("bob", "s:source{'source': 'traffic'} > k:sink")
    whole, own = manager.service.overview.counts(OPERATOR), manager.service.overview.counts(ANN)
    assert ({DataflowState.DEPLOYING: 4}, 11) == (whole.dataflows, whole.tasks_submitted)
    assert ({DataflowState.DEPLOYING: 2}, 6, None) == (own.dataflows, own.tasks_submitted, own.jobs)
    # Three dataflows share all three tasks, and the fourth has no step.
    assert KindsAnswer(sources=4, steps=3, outputs=4) == whole.submitted_by_kind
    assert KindsAnswer(sources=2, steps=1, outputs=2) == whole.running_by_kind
    assert KindsAnswer(sources=1, steps=1, outputs=1) == own.running_by_kind
    instances = {each.instance for name in (first, second) for each in manager.service.dataflows.get(ANN, name).tasks}
    assert len(instances) == own.tasks_running
    with manager.committer.looking() as state:
        assert len(state.running.tasks) == whole.tasks_running
    manager.service.dataflows.remove(ANN, first, Stop.NOW)
    manager.service.dataflows.remove(ANN, second, Stop.DRAIN)
    assert {DataflowState.DRAINING: 1} == manager.service.overview.counts(ANN).dataflows


def test_states_are_those_that_each_dataflow_has(manager: Manager) -> None:
    """What is counted is what a list of dataflows shows."""
    for text in ("s:source > k:sink", "s:source > a:map > k:sink", "s:source{'source': 'traffic'} > k:sink"):
        manager.submit("ann", text)
    with manager.committer.looking() as state:
        jobs = [str(job) for job in state.plans]
    manager.seen.jobs = {jobs[0]: seen(jobs[0]), jobs[-1]: seen(jobs[-1], "died", trouble="disk full")}
    shown = set(DataflowState) - {DataflowState.REMOVED}
    for who in (OPERATOR, ANN):
        listed = {each: len(manager.service.dataflows.page(who, Paging(limit=10), state=each).items) for each in shown}
        counted = manager.service.overview.counts(who).dataflows
        assert {each: count for each, count in listed.items() if count} == counted
        assert len(counted) > 1


def test_jobs_are_counted_and_those_in_trouble_named(manager: Manager) -> None:
    """By what their hosts say; a job of which nothing was heard is awaited, and what waits is added up."""
    for source in ("weather", "traffic"):
        for number in range(2):
            manager.submit("ann", f"s:source{{'source': '{source}'}} > a:map{{'add': {number}}} > k:sink")
    with manager.committer.looking() as state:
        jobs = [str(job) for job in sorted(state.plans)]
    assert {"awaited": len(jobs)} == _jobs(manager).states
    assert (None, None, ()) == (_jobs(manager).lag_events, _jobs(manager).lag_seconds, _jobs(manager).troubled)
    behind = {"a": StreamMeasured(lag_events=3, lag_seconds=0.5), "b": StreamMeasured(lag_events=4, lag_seconds=0.25)}
    manager.seen.jobs = {job: seen(job, measured=(Measured(streams=behind),)) for job in jobs}
    last = jobs[-1]
    manager.seen.jobs[last] = seen(last, "died", trouble="disk full")
    found = _jobs(manager)
    assert (1, (TroubledJobAnswer(job=last, state="died", trouble="disk full"),)) == (found.in_trouble, found.troubled)
    assert {"died": 1, "running": len(jobs) - 1} == found.states
    assert (7 * (len(jobs) - 1), 0.5) == (found.lag_events, found.lag_seconds)
    manager.seen.jobs[last] = seen(last, refused="no such type")
    assert ["no such type"] == [each.trouble for each in _jobs(manager).troubled]


def test_the_jobs_that_are_named_are_bounded(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are counted."""
    assert MOST_TROUBLED > 1
    monkeypatch.setattr("manager.overview.use_cases.MOST_TROUBLED", 1)
    for number in range(3):
        manager.submit("ann", f"s:source > a:map{{'add': {number}}} > k:sink")
    with manager.committer.looking() as state:
        manager.seen.jobs = {str(job): seen(str(job), "stuck") for job in state.plans}
    found = _jobs(manager)
    assert len(manager.seen.jobs) > 1
    assert (1, len(manager.seen.jobs)) == (len(found.troubled), found.in_trouble)


def _jobs(manager: Manager) -> JobsOverview:
    found = manager.service.overview.counts(OPERATOR).jobs
    assert found is not None
    return found


def test_who_drives_hosts_has_counted_everybodys_dataflows(manager: Manager) -> None:
    """Operators get the states that its last look found, without those in which there are none; tenants their own."""
    manager.submit("ann", "s:source > k:sink")
    counts = {"running": 3, "degraded": 0}
    driven = ReconcilerActivity(
        connected=True,
        unread=0,
        looks=1,
        failures=0,
        steps={},
        turns={},
        reconfigurations={},
        reconfiguration_delays=Delays(),
        dataflows=counts,
    )
    manager.equip(activity=lambda: driven)
    assert {DataflowState.RUNNING: 3} == manager.service.overview.counts(OPERATOR).dataflows
    assert {DataflowState.DEPLOYING: 1} == manager.service.overview.counts(ANN).dataflows
