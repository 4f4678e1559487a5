"""Dashboards and alerts ask for metrics and labels that there are, and Prometheus and Grafana find what they read.

Neither is started: its form is held as far as Braid's own part of it goes. `promtool` checks the rules, and runs them.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from braid_client.answers.dataflows import DataflowState
from bridge.spools.spool import SpoolState
from engine.host.spools import UNSUBSCRIBED
from manager.rest.app import _routed
from manager.rest.metrics import DATAFLOWS_LEFT_OUT, METRICS, TENANT_METRICS, Metric
from tests import needs
from tests.documentation.pages import ROOT
from tests.manager.overview.observed import observed, scraped

DEPLOY = ROOT / "deploy"
DASHBOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((DEPLOY / "grafana").glob("*.json"))
}
PROMETHEUS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
RULES: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text(encoding="utf-8"))
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
QUERIES = [
    (name, target["expr"], target["legendFormat"])
    for name, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
    if panel["type"] != "row"
    for target in panel["targets"]
]
READERS = {"operator": "operator", "job": "operator", "tenant": "ann"}
"""Whose key Prometheus has that a dashboard asks."""
KNOWN = {metric.name: metric for metric in (*METRICS, *TENANT_METRICS)}
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


@pytest.mark.parametrize(("dashboard", "expression", "legend"), QUERIES)
def test_a_query_asks_for_what_there_is(dashboard: str, expression: str, legend: str) -> None:
    """Each metric is in its reader's table, each label is one of its own, and counters are asked how fast they rise."""
    kept: set[str] | None = None
    for by in re.findall(r"by \(([^)]*)\)", expression):
        kept = {label.strip() for label in by.split(",")}
    for metric, labels, matchers in selected(expression):
        assert metric in (TENANT_METRICS if dashboard == "tenant" else METRICS)
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
        families = {who: scraped(town, who) for who in set(READERS.values())}
    for dashboard, expression, _ in QUERIES:
        for metric, _, matchers in selected(expression):
            there = families[READERS[dashboard]][metric.name.removesuffix("_total")].samples
            for label, value in re.findall(r'(\w+)="([^"]*)"', matchers):
                assert value in {sample.labels[label] for sample in there}, expression


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_a_dashboard_is_whole(dashboard: dict[str, Any]) -> None:
    """Panels have ids of their own, do not overlap, say what they show, and ask the source that is chosen.

    So do the variables that select, each by a label of a metric that is there.
    """
    assert len(dashboard["panels"]) == len({panel["id"] for panel in dashboard["panels"]})
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    cells = [(place["x"] + x, place["y"] + y) for place in places for x in range(place["w"]) for y in range(place["h"])]
    assert len(cells) == len(set(cells))
    assert {True} == {x < 24 for x, _ in cells}
    source, *variables = dashboard["templating"]["list"]
    assert "source" == source["name"]
    for variable in variables:
        asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"])
        assert asked
        assert asked[2] in KNOWN[asked[1]].labels
        assert variable["query"] == variable["definition"]
    expressions = (expression for name, expression, _ in QUERIES if DASHBOARDS[name] is dashboard)
    used = {name for expression in expressions for name in re.findall(r'"\$(\w+)"', expression)}
    assert {variable["name"] for variable in variables} == used
    for panel in (panel for panel in dashboard["panels"] if panel["type"] != "row"):
        assert panel["description"].endswith("."), panel["title"]
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert {("prometheus", "${source}")} == {(each["type"], each["uid"]) for each in sources}


def test_every_part_of_a_service_is_on_a_dashboard() -> None:
    """On the operators': cores, savings, dataflows, jobs, lag, latency, batches, errors, moves and machines.

    All that a tenant can read is on that of tenants, and all that is about one job on that of jobs.
    """
    shown = {
        name: {metric for of, expression, _ in QUERIES if of == name for metric, *_ in selected(expression)}
        for name in DASHBOARDS
    }
    parts = (
        *("host_cpu_seconds_total", "saved_cores", "dataflows", "jobs", "job_lag_seconds", "job_latency_seconds"),
        *("job_batch_seconds", "task_events_dead_total", "reconciler_failures_total", "moves_total"),
        *("machine_up", "machine_hosts", "hosts_under_replicated", "hosts_without_standby", "host_behind_bytes"),
    )
    assert {f"braid_{part}" for part in parts} <= {metric.name for metric in shown["operator"]}
    assert set(TENANT_METRICS) == shown["tenant"] | {DATAFLOWS_LEFT_OUT}
    of_jobs = {metric for metric in METRICS if metric.name.startswith("braid_job_")}
    # Their sum is shown, and seconds say more than their number.
    assert of_jobs == {metric for metric in shown["job"] if metric in of_jobs} | {KNOWN["braid_job_lag_events"]}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_an_alert_asks_for_what_there_is(alert: dict[str, Any]) -> None:
    """With labels that there are; it waits for a while, and says what to do, at more length in the runbook."""
    labels = set[str]()
    for metric, of_metric, matchers in selected(alert["expr"]):
        assert (metric.kind == "gauge") != ("increase(" in alert["expr"])
        labels |= of_metric
        assert set(re.findall(r"(\w+)=", matchers)) <= of_metric
        assert set(re.findall(r'state="(\w+)"', matchers)) <= {*DataflowState, *SpoolState, UNSUBSCRIBED}
    assert set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"])) <= labels
    assert "for" in alert or "[10m]" in alert["expr"] or "seconds" in alert["expr"]
    assert alert["labels"]["severity"] in {"warning", "critical"}
    anchor = f"runbook.html#{alert['alert'].lower()}"
    assert f"{{{{ $externalLabels.docs_site }}}}/{anchor}" == alert["annotations"]["runbook_url"]
    assert PROMETHEUS["global"]["external_labels"].keys() == {"docs_site"}


def test_the_runbook_has_a_section_for_each_alert() -> None:
    """In their order, each with something to do; and none for an alert that there is not."""
    _, *sections = re.split(r"^## ", (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    titles = [section.partition("\n")[0] for section in sections]
    assert [*(str(alert["alert"]) for alert in ALERTS), "Signs without an alert"] == titles
    assert all("\n1. " in section for section in sections[:-1])


FIRES = {
    "BraidNobodyLeads": ("braid_leader", "0x30", "0 0 1x28"),
    "BraidBrokerAway": ("braid_broker_connected", "0x30", "0 0 1x28"),
    "BraidReconcilerFails": ("braid_reconciler_failures_total", "0+1x30", "3x30"),
    "BraidMachineDown": ('braid_machine_up{machine="m"}', "0x30", "1x30"),
    "BraidMachineWaits": ("braid_machines_waiting", "1x30", "0x30"),
    "BraidHostDown": ('braid_host_up{host="h"}', "0x30", "0 1x29"),
    "BraidUnderReplicated": ("braid_hosts_under_replicated", "2x30", "2x5 0x25"),
    "BraidNoStandby": ("braid_hosts_without_standby", "1x30", "0x30"),
    "BraidCopiesBehind": ('braid_host_behind_bytes{host="h"}', "2e8x30", "2e8 1x29"),
    "BraidSpoolFull": ('braid_host_spools{host="h", state="full"}', "1x30", "0x30"),
    "BraidUnsubscribed": ('braid_host_spools{host="h", state="unsubscribed"}', "1x30", "1 1 0x28"),
    "BraidJobDown": ('braid_job_up{job_id="7", host="h"}', "0x30", "0x3 1x27"),
    "BraidJobBehind": ('braid_job_lag_seconds{job_id="7"}', "61x30", "100x15 1x15"),
    "BraidTasksFail": ('braid_job_tasks_failing{job_id="7"}', "1x30", "0x30"),
    "BraidDataflowsDegraded": ('braid_dataflows{state="degraded"}', "1x30", "1x5 0x25"),
    "BraidLineageBehind": ("braid_lineage_behind_seconds", "0+60x30", "0x30"),
}
"""For each alert a series, its values at each minute with which the alert fires after 20, and others."""
BESIDE = [
    {"series": series, "values": "1x30"}
    for series in ('braid_machine_up{machine="m"}', 'braid_machine_up{machine="n"}', "braid_leader")
]
"""What is there beside."""


def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    """As Prometheus runs them, with the address of the runbook."""
    assert [alert["alert"] for alert in ALERTS] == list(FIRES)
    docs = "https://docs.example.org/braid"
    tests = []
    for alert in ALERTS:
        series, fires, rests = FIRES[alert["alert"]]
        own = dict(re.findall(r'(\w+)="([^"]*)"', series))
        kept = re.search(r"by \((\w+)\)", alert["expr"])
        labels = {kept[1]: own[kept[1]]} if kept else {} if "max(" in alert["expr"] else own
        texts = {name: _shown(text, labels, docs) for name, text in alert["annotations"].items()}
        fired = {"exp_labels": {**labels, **alert["labels"]}, "exp_annotations": texts}
        for values, expected in ((fires, [fired]), (rests, [])):
            beside = [one for one in BESIDE if one["series"] != series]
            tests.append(
                {
                    "interval": "1m",
                    "external_labels": {"docs_site": docs},
                    "input_series": [{"series": series, "values": values}, *beside],
                    "alert_rule_test": [{"eval_time": "20m", "alertname": alert["alert"], "exp_alerts": expected}],
                }
            )
    written = tmp_path / "tests.yml"
    rules = str(DEPLOY / "prometheus" / "rules.yml")
    written.write_text(yaml.safe_dump({"rule_files": [rules], "tests": tests}), encoding="utf-8")
    promtool("test", "rules", str(written))


def _shown(text: str, labels: dict[str, str], docs: str) -> str:
    for name, value in labels.items():
        text = text.replace(f"{{{{ $labels.{name} }}}}", value)
    return text.replace("{{ $externalLabels.docs_site }}", docs)


def test_promtool_takes_rules_and_configuration() -> None:
    """Each expression and template can be read; the key is not here."""
    promtool("check", "rules", str(DEPLOY / "prometheus" / "rules.yml"))
    promtool("check", "config", "--syntax-only", str(DEPLOY / "prometheus" / "prometheus.yml"))


def promtool(*arguments: str) -> None:
    done = subprocess.run(  # noqa: S603 - the command is Prometheus' own
        [needs.promtool(), *arguments], capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stdout + done.stderr


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


def test_grafana_finds_the_data_source_and_the_dashboards() -> None:
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
    assert {f"{name}.json" for name in READERS} == {path.name for path in (DEPLOY / "grafana").rglob("*.json")}
    assert len(DASHBOARDS) == len({dashboard["uid"] for dashboard in DASHBOARDS.values()})
