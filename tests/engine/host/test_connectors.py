"""The connectors of a host: a package brings a kind, its client fills a spool, and troubles are those of its source."""

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bridge.connectors import connector_run
from bridge.machine import BackOff, SystemClock
from bridge.spools.log import unpacked
from bridge.spools.reader import read
from dags import Kind
from dags.connectors import Connector
from dags.message_formats import AvroMessages
from engine import BrokenTaskTypes
from engine.catalogue import installed_connectors
from engine.host.spools import UNSUBSCRIBED, HostSpools
from engine.outside import Vault
from engine.plan import ConnectorSupply, Ingress, Plan
from engine.plan_messages import RefusedPlan, read_plan, written_plan
from engine.records.job_folder import spool_folder
from tests.engine.host.test_spools import Broker
from tests.engine.replicas.scene import until

RECORD = """
from typing import ClassVar, Literal
from dags import Kind
from dags.config import Place, Secret
from dags.connectors import MessageConnector

class Meters(MessageConnector):
    kind: Literal["meters"]
    serial: int
    secret: Secret | None = None
    place: Place | None = None
    client: ClassVar[str] = "acme_meters_client:MetersClient"
    promise: ClassVar[str] = "Nothing."

    @property
    def made_fields(self):
        return {"serial": Kind.INTEGER}
"""
CLIENT = """
import json
from pathlib import Path
import pyarrow as pa
from bridge.connectors.connector_run import TakenEvents, ConnectorTrouble
from bridge.raw_events import arrow_schema

class MetersClient:
    def __init__(self, connector, assignment):
        self.connector, self.assignment = connector, assignment
        self.log("connects", assignment.stream, dict(assignment.positions))
        if connector.serial < 0:
            raise ConnectorTrouble("no meter has such a number")
        self.at = assignment.positions.get("at", 0)

    def log(self, *what):
        with Path(self.assignment.outside.place("ann", "log")).open("a") as log:
            log.write(json.dumps([self.connector.secret and self.connector.secret.revealed, *what]) + "\\n")

    def take(self, seconds):
        if self.at >= 4:
            return None
        events, unfit = self.assignment.decode([b'{"watts": %d}' % self.at, b'{"watts": "?"}'])
        self.at += 1
        rows = [{**event, "serial": self.connector.serial} for event in events.to_pylist()]
        events = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(self.assignment.schema))
        return TakenEvents(events=events, unfit=unfit, positions={"at": self.at})

    def spooled(self): ...

    def close(self, *, for_good):
        self.log("closes", for_good)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which packages are installed."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(connector_run, "_BACK_OFF", BackOff((0.01,)))
    monkeypatch.setattr(connector_run, "_WAITING", 0.01)
    for name in ("acme_meters", "acme_meters_client", "zinc_meters"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    installed_connectors.cache_clear()
    yield folder
    installed_connectors.cache_clear()


def install(site: Path, module: str, text: str, place: str, kind: str = "meters") -> None:
    (site / f"{module}.py").write_text(text)
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[braid.connectors]\n{kind} = {place}\n")


@pytest.fixture
def meters(site: Path) -> type[Connector]:
    """A kind that a package brings."""
    install(site, "acme_meters", RECORD, "acme_meters:Meters")
    (site / "acme_meters_client.py").write_text(CLIENT)
    return installed_connectors()["meters"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "files" / "ann").mkdir(parents=True)
    return made


@pytest.fixture
def spools(root: Path) -> Iterator[HostSpools]:
    made = HostSpools(
        root, Broker(), clock=SystemClock(), on_growth=lambda _stream, _marked: None, due=lambda _stream, after: after
    )
    yield made
    made.close()


def planned(job: str) -> Plan:
    return Plan(job=job, host="h", version=1)


def ingress(
    record: type[Connector],
    *,
    stream: str = "source/1",
    fields: Mapping[str, Kind] | None = None,
    serial: int = 7,
    **form: Any,
) -> Ingress:
    connector = record.model_validate({"kind": "meters", "serial": serial, **form})
    text = connector.model_dump_json(context={"owner": "ann"}, exclude={"format"})
    declared = {"watts": Kind.INTEGER} if fields is None else fields
    return Ingress(
        stream=stream, instance=1, supply=ConnectorSupply(connector=text, fields={**declared, "serial": Kind.INTEGER})
    )


def events(root: Path, stream: str = "source/1") -> list[dict[str, Any]]:
    return [
        event for _, item in read(spool_folder(root, stream), 0, 10**9) for event in unpacked(item.payload).to_pylist()
    ]


def log(root: Path) -> str:
    return (root / "files" / "ann" / "log").read_text()


def test_a_package_brings_a_kind(meters: type[Connector]) -> None:
    """Beside Braid's own; plans have it as JSON, and are read as they were written."""
    assert {"meters", "mqtt"} <= installed_connectors().keys()
    plan = Plan(job="j", host="h", version=1, ingress=(ingress(meters),))
    assert plan == read_plan(written_plan(plan))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero; repair or uninstall that package"),
        ("Meters = 5", "is no record of a connector; repair or uninstall that package"),
    ],
)
def test_a_package_that_brings_no_kind_is_named(site: Path, text: str, why: str) -> None:
    """With what is wrong with it."""
    install(site, "acme_meters", text, "acme_meters:Meters")
    with pytest.raises(BrokenTaskTypes) as refused:
        installed_connectors()
    assert f"the connector 'meters' of acme_meters {why}" == str(refused.value)


def test_two_packages_that_bring_one_kind_are_refused(site: Path) -> None:
    """Nobody could say whose is meant."""
    for module in ("acme_meters", "zinc_meters"):
        install(site, module, RECORD, f"{module}:Meters")
    with pytest.raises(BrokenTaskTypes, match="of zinc_meters is provided by another package too"):
        installed_connectors()


def test_a_connector_fills_the_spool_of_its_source(root: Path, spools: HostSpools, meters: type[Connector]) -> None:
    """With secrets resolved, and fields that it adds; what is rejected is counted, and the link reported."""
    Vault(root).put("ann", "key", "a word")
    spools.need(planned("a"), ingress(meters, secret={"secret": "key"}))
    until(lambda: spools.received()["source/1"]["accepted"] == 4)
    assert [(n, 7) for n in range(4)] == [(event["watts"], event["serial"]) for event in events(root)]
    received = spools.received()["source/1"]
    assert (4, "") == (received["rejected"], received["link"]["error"])
    assert received["link"]["connected"]
    assert {"source/1": "ready"} == spools.states()
    assert log(root) == '["a word", "connects", "source/1", {}]\n'


def test_a_connector_in_trouble_is_the_trouble_of_its_source(
    root: Path, spools: HostSpools, meters: type[Connector]
) -> None:
    """The link says what is wrong, and once it is right the source is connected; others are supplied."""
    spools.need(planned("a"), ingress(meters, secret={"secret": "key"}))
    spools.need(planned("a"), ingress(meters, stream="source/2"))
    until(lambda: bool(spools.received()["source/1"]["link"]["error"]))
    until(lambda: spools.received()["source/2"]["accepted"] == 4)
    link = spools.received()["source/1"]["link"]
    assert ("'ann' has no secret 'key'; put it with `braid secrets put key`", False) == (
        link["error"],
        link["connected"],
    )
    assert UNSUBSCRIBED == spools.states()["source/1"]
    Vault(root).put("ann", "key", "a word")
    until(lambda: spools.received()["source/1"]["accepted"] == 4)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("kind", "no package provides connectors of kind 'metres'; install the one that does"),
        ("client", "the client of connectors of kind 'meters' cannot be imported on this host: No module named 'acme"),
        ("record", "this host cannot read the connection: Input should be a valid integer"),
        ("format", "takes no bytes"),
        ("serial", "no meter has such a number"),
    ],
)
def test_a_host_that_has_less_installed_says_so(  # noqa: PLR0913, PLR0917 - a change with its reason, and a host
    site: Path, root: Path, spools: HostSpools, meters: type[Connector], change: str, why: str
) -> None:
    """An older package, one without its client's libraries, or none."""
    asked = ingress(meters, serial=-1 if change == "serial" else 7)
    assert isinstance(asked.supply, ConnectorSupply)
    text = asked.supply.connector
    if change == "client":
        (site / "acme_meters_client.py").write_text("import acme_no_library")
    if change == "format":
        pytest.importorskip("fastavro")
    supply = ConnectorSupply(
        connector={"kind": text.replace("meters", "metres"), "record": text.replace("7", '"x"')}.get(change, text),
        fields=asked.supply.fields,
        format=AvroMessages(writer_schema="null") if change == "format" else asked.supply.format,
    )
    spools.need(planned("a"), Ingress(stream="source/1", instance=1, supply=supply))
    until(lambda: bool(spools.received()["source/1"]["link"]["error"]))
    assert why in spools.received()["source/1"]["link"]["error"]
    assert '"x"' not in spools.received()["source/1"]["link"]["error"]
    assert not (root / "files" / "ann" / "log").exists() or change == "serial"


def test_a_source_that_nobody_reads_any_more_is_forgotten(
    root: Path, spools: HostSpools, meters: type[Connector]
) -> None:
    """Its client is told; the next reader begins anew. A host that only ends goes on later."""
    for job in ("a", "b"):
        spools.need(planned(job), ingress(meters))
    until(lambda: spools.received()["source/1"]["accepted"] == 4)
    spools.drop("a", "source/1")
    assert {"source/1": "ready"} == spools.states()
    spools.drop("b", "source/1")
    # Its end is not waited for.
    until(partial(_has_ended, spools))
    assert log(root).splitlines()[-1] == '[null, "closes", true]'
    spools.need(planned("a"), ingress(meters))
    until(lambda: spools.end("source/1") == 8)
    spools.close()
    assert log(root).splitlines()[-1] == '[null, "closes", false]'
    spools.need(planned("a"), ingress(meters))
    until(lambda: '{"at": 4}' in log(root))
    assert spools.end("source/1") == 8


def _has_ended(spools: HostSpools) -> bool:
    spools.look()
    return not spools.states()


def test_a_source_that_is_read_again_while_it_ends_begins_anew(
    root: Path, spools: HostSpools, meters: type[Connector]
) -> None:
    """Nothing of the run that ends is used."""
    for round_ in range(1, 4):
        spools.need(planned("a"), ingress(meters))
        end = 4 * round_
        until(lambda: spools.end("source/1") == end)  # noqa: B023 - it is called at once
        spools.drop("a", "source/1")
    assert log(root).count("connects") == 3


def test_a_source_declares_only_what_all_its_readers_do(
    root: Path, spools: HostSpools, meters: type[Connector]
) -> None:
    """A changed schema begins a new client, from where the one before was; another connection is another stream."""
    spools.need(planned("a"), ingress(meters))
    until(lambda: len(events(root)) == 4)
    spools.need(planned("b"), ingress(meters, fields={"volts": Kind.INTEGER}))
    until(lambda: log(root).count("connects") == 2)
    assert '"connects", "source/1", {"at": 4}' in log(root)
    with pytest.raises(RefusedPlan, match="cannot be supplied beside"):
        spools.need(planned("c"), ingress(meters, serial=8))
