"""The dashboard asks for metrics and labels that there are, and Prometheus and Grafana find what they have to read.

Neither is started: its form is held as far as Braid's own part of it goes.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from manager.rest.app import _routed
from manager.rest.metrics import METRICS, Metric
from tests.documentation.pages import ROOT
from tests.manager.overview.observed import observed, scraped

DEPLOY = ROOT / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "braid.json").read_text(encoding="utf-8"))
PROMETHEUS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
RULES: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text(encoding="utf-8"))
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(target["expr"], target["legendFormat"]) for panel in PANELS for target in panel["targets"]]
KNOWN = {metric.name: metric for metric in METRICS}
FUNCTIONS = {"sum", "max", "by", "rate", "increase", "topk", "histogram_quantile"}
SAMPLES = ("", "_bucket", "_sum", "_count")
"""What the samples of a histogram end in."""
_METRIC = re.compile(r"(braid_\w+)(?:\{([^}]*)\})?")


def selected(expression: str) -> Iterator[tuple[Metric, set[str], str]]:
    """The metrics in an expression, each with the labels that its samples may have, and its matchers."""
    for name, matchers in _METRIC.findall(expression):
        metric = next(KNOWN[name.removesuffix(end)] for end in SAMPLES if name.removesuffix(end) in KNOWN)
        is_histogram = metric.kind == "histogram"
        assert is_histogram == (name != metric.name), f"{name} has no samples"
        yield metric, {*metric.labels, *({"le"} if is_histogram else ())}, matchers


@pytest.mark.parametrize(("expression", "legend"), QUERIES)
def test_a_query_asks_for_what_there_is(expression: str, legend: str) -> None:
    """Each metric is in the table, each label is one of its own, and counters are asked for how fast they rise."""
    kept: set[str] | None = None
    for by in re.findall(r"by \(([^)]*)\)", expression):
        kept = {label.strip() for label in by.split(",")}
    for metric, labels, matchers in selected(expression):
        named = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert named <= labels, expression
        assert (kept or set()) <= labels, expression
        rises = re.search(rf"(?:rate|increase)\({metric.name}\w*(?:\{{[^}}]*\}})?\[", expression)
        assert (metric.kind != "gauge") == bool(rises), expression
    shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
    assert shown <= (kept if kept is not None else next(labels for _, labels, _ in selected(expression)))
    words = re.sub(r'"[^"]*"|\[[^]]*\]|\{[^}]*\}|by \([^)]*\)', " ", _METRIC.sub(" ", expression))
    assert set(re.findall(r"[a-z]\w*", words)) <= FUNCTIONS, expression


def test_a_value_that_is_asked_for_is_one_that_there_is(tmp_path: Path) -> None:
    """A matcher with a value that no sample has would show nothing, and nobody would know why."""
    with observed(tmp_path) as (town, _):
        families = scraped(town)
    for expression, _ in QUERIES:
        for metric, _, matchers in selected(expression):
            there = families[metric.name.removesuffix("_total")].samples
            for label, value in re.findall(r'(\w+)="([^"]*)"', matchers):
                assert value in {sample.labels[label] for sample in there}, expression


def test_the_dashboard_is_whole() -> None:
    """Panels have ids of their own, do not overlap, say what they show, and ask the source that is chosen."""
    assert len(DASHBOARD["panels"]) == len({panel["id"] for panel in DASHBOARD["panels"]})
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [(place["x"] + x, place["y"] + y) for place in places for x in range(place["w"]) for y in range(place["h"])]
    assert len(cells) == len(set(cells))
    assert {True} == {x < 24 for x, _ in cells}
    assert ["source"] == [each["name"] for each in DASHBOARD["templating"]["list"]]
    for panel in PANELS:
        assert panel["description"].endswith("."), panel["title"]
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert {("prometheus", "${source}")} == {(each["type"], each["uid"]) for each in sources}


def test_every_part_of_a_service_is_on_the_dashboard() -> None:
    """What the dashboard is for: cores, savings, dataflows, jobs, lag, latency, batches, errors, moves and machines."""
    shown = {metric.name for expression, _ in QUERIES for metric, *_ in selected(expression)}
    parts = (
        *("host_cpu_seconds_total", "saved_cores", "dataflows", "jobs", "job_lag_seconds", "job_latency_seconds"),
        *("job_batch_seconds", "task_events_dead_total", "reconciler_failures_total", "moves_total"),
        *("machine_up", "machine_hosts", "hosts_under_replicated", "hosts_without_standby", "host_behind_bytes"),
    )
    assert {f"braid_{part}" for part in parts} <= shown


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_an_alert_asks_for_what_there_is(alert: dict[str, Any]) -> None:
    """Of gauges, with labels that they have; it waits for a while, and says what to do."""
    labels = set[str]()
    for metric, of_metric, _ in selected(alert["expr"]):
        assert metric.kind == "gauge"
        labels |= of_metric
    assert set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"])) <= labels
    assert "for" in alert or "over_time" in alert["expr"]
    assert alert["labels"]["severity"] in {"warning", "critical"}


def test_prometheus_has_the_alerts() -> None:
    """The file lies where it is named, and there is an alert for each trouble of machines."""
    assert PROMETHEUS["rule_files"] == ["rules.yml"]
    alerted = {metric.name for alert in ALERTS for metric, *_ in selected(alert["expr"])}
    parts = ("leader", "machine_up", "host_up", "hosts_under_replicated", "hosts_without_standby", "host_behind_bytes")
    assert {f"braid_{part}" for part in parts} <= alerted


def test_prometheus_reads_the_manager_with_a_key_of_its_own() -> None:
    """The target is the manager's service and port, its path a route, and the key lies in a secret."""
    (scrape,) = PROMETHEUS["scrape_configs"]
    ((target,),) = (each["targets"] for each in scrape["static_configs"])
    host, _, port = target.partition(":")
    assert [f"127.0.0.1:{port}:{port}"] == SERVICES[host]["ports"]
    assert scrape["metrics_path"] in _routed().openapi()["paths"]
    (secret,) = SERVICES["prometheus"]["secrets"]
    assert {"type": "Bearer", "credentials_file": f"/run/secrets/{secret}"} == scrape["authorization"]


def test_grafana_finds_the_data_source_and_the_dashboard() -> None:
    """What is provisioned lies where the compose file mounts it, and names the service that Prometheus is."""
    grafana = SERVICES["grafana"]
    (mounted,) = (each.split(":")[1] for each in grafana["volumes"] if each.startswith("./grafana:"))
    assert grafana["environment"]["GF_PATHS_PROVISIONING"] == f"{mounted}/provisioning"
    folder = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "braid.yaml").read_text(encoding="utf-8"))["datasources"]
    (port,) = (port.split(":")[-1] for port in SERVICES["prometheus"]["ports"])
    assert ("prometheus", f"http://prometheus:{port}") == (source["type"], source["url"])
    (provider,) = yaml.safe_load((folder / "dashboards" / "braid.yaml").read_text(encoding="utf-8"))["providers"]
    assert mounted == provider["options"]["path"]
    assert ["braid.json"] == [path.name for path in (DEPLOY / "grafana").rglob("*.json")]
