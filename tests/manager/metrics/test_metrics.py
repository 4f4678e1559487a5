"""What Prometheus reads of a manager: all that it knows, to operators only, and never too much."""

import re
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from manager.metrics import samples
from manager.metrics.catalogue import METRICS
from tests.manager.metrics.observed import HOST, Seen, did, instances_of, measured, observed, running, scraped
from tests.manager.rest.socket_server import serving
from tests.manager.rest.town import TENANTS, Town


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Town, Seen]]:
    with observed(tmp_path_factory.mktemp("observed")) as made:
        yield made


def _values(made: Town, name: str) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values()): sample.value for sample in scraped(made)[name].samples}


def test_every_metric_of_the_table_is_told_as_it_is_described(living: tuple[Town, Seen]) -> None:
    """A manager that sees everything has samples of each metric, and of no other, with its kind, words and labels."""
    town, _ = living
    # In the text form the name of a counter's family goes without its ending.
    described = {each.name.removesuffix("_total"): (each.kind, each.about, set(each.labels)) for each in METRICS}
    told = {
        name: (family.type, family.documentation, {label for each in family.samples for label in each.labels} - {"le"})
        for name, family in scraped(town).items()
    }
    assert described == told


def test_names_follow_the_conventions() -> None:
    """All begin alike, only counters end in `_total`, units are base units, and no label is one of Prometheus' own."""
    for metric in METRICS:
        assert re.fullmatch(r"braid(_[a-z]+)+", metric.name), metric
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric
        assert not re.search(r"_(ms|ns|milliseconds|nanoseconds|kilobytes|percent)(_|$)", metric.name), metric
        assert metric.about.endswith("."), metric
        # Prometheus calls its targets so.
        assert not {"job", "instance"} & set(metric.labels), metric
    assert len(METRICS) == len({metric.name for metric in METRICS})


def test_what_is_seen_is_what_is_told(living: tuple[Town, Seen]) -> None:
    """Hosts and jobs have the values that they said, and what a spool's state is at length is not told."""
    town, seen = living
    job = town.places["job"]
    assert {("north", "driver"): 1.5, ("north", "jvm"): 20.0, ("north", "worker"): 4.0} == _values(
        town, "braid_host_cpu_seconds"
    )
    assert {("north", state): 1 for state in ("elsewhere", "ready", "trouble")} == _values(town, "braid_host_spools")
    assert {("north",): 4_096} == _values(town, "braid_host_spool_bytes")
    assert {(job, "0.5"): 0.25, (job, "0.99"): 0.5} == _values(town, "braid_job_latency_seconds")
    assert 1 == _values(town, "braid_jobs")["running",]
    seen.there = (replace(HOST, alive=False),)
    assert {("north",): 0} == _values(town, "braid_host_up")
    seen.there = (HOST,)


def test_sums_go_on_where_a_job_starts_again(living: tuple[Town, Seen]) -> None:
    """Events and CPU rise by what was done since the look before, though the job counts from nothing again."""
    town, seen = living
    job, instances = town.places["job"], instances_of(town)
    names = ("braid_job_events_in", "braid_job_events_out", "braid_task_events_in")
    before = {name: sum(_values(town, name).values()) for name in names}
    again = measured(dict.fromkeys(instances, did(2)), entered=4, left=3, run=2)
    seen.jobs[job] = running(job, again, restarts=1)
    after = {name: sum(_values(town, name).values()) for name in names}
    assert [4, 3, 20 * len(instances)] == [after[name] - before[name] for name in names]
    assert {(job,): 1} == _values(town, "braid_job_restarts")


def test_no_label_holds_a_name_that_tenants_chose(living: tuple[Town, Seen]) -> None:
    """Neither a tenant, a dataflow, a source nor a secret is named, whatever there is."""
    town, _ = living
    values = {value for family in scraped(town).values() for each in family.samples for value in each.labels.values()}
    named = {*TENANTS, *town.places.values(), "Street", "street", "city:street", "warehouse"} - {town.places["job"]}
    # Dead letters are numbered, as jobs are.
    assert set() == values & {name for name in named if not name.isdecimal()}


def test_series_are_bounded(living: tuple[Town, Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a bound only those with the lowest numbers have samples, and how many were left out is told."""
    town, _ = living
    monkeypatch.setattr(samples, "MOST_INSTANCE_SAMPLES", 2)
    instances = instances_of(town)
    told = scraped(town)
    shown = [each.labels["instance_id"] for each in told["braid_instance_cpu_seconds"].samples]
    left = {each.labels["of"]: each.value for each in told["braid_left_out"].samples}
    assert [str(each) for each in instances[:2]] == shown
    assert {"jobs": 0, "instances": len(instances) - 2, "streams": 0} == left


def test_only_operators_read_it_wherever_they_are(living: tuple[Town, Seen]) -> None:
    """A tenant may not, and without a key nobody does, on the loopback address either."""
    town, _ = living
    with serving(town.app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        asked = [
            client.get("/metrics", headers={"Authorization": f"Bearer {town.keys[who]}"} if who else {}).status_code
            for who in (None, "ann", "operator")
        ]
    assert [401, 403, 200] == asked


def test_it_is_told_as_openmetrics_too(living: tuple[Town, Seen]) -> None:
    """Who asks for that form gets it, which ends as it should and has the same metrics."""
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
    """By the form of their path and a known method, so that nobody makes up series; each counts once."""
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


def test_who_does_not_lead_tells_so(living: tuple[Town, Seen]) -> None:
    """It answers of itself, and of what all managers share nothing: whoever adds managers up counts nothing twice."""
    town, _ = living
    town.tools.committer.step_down()
    try:
        told = scraped(town)
    finally:
        town.tools.committer.lead(1)
    assert [0.0] == [each.value for each in told["braid_leader"].samples]
    of_itself = {"build_info", "leader", "ready", "broker_messages_passed_over"}
    assert of_itself | {"http_requests", "http_request_duration_seconds"} == {
        name.removeprefix("braid_") for name in told
    }
