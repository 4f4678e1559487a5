"""From the release before to this one and back, on one root with dataflows that run: nothing is lost."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from manager.settings import read_key
from tests import needs
from tests.integration.serving import BRAID, Served, counting, passing, serving
from tests.manager.databases import server
from tests.releases.release_before import installed, tables

pytestmark = [pytest.mark.slow, pytest.mark.spark]
SOURCE = {
    "name": "street",
    "owner": "ann",
    "connection": {"kind": "topic", "topic": "city/street"},
    "schema": {"n": "integer", "k": "string"},
}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command line of the release before."""
    return installed(tmp_path_factory.mktemp("before"))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def settings(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    if request.param == "sqlite":
        yield {}
        return
    with server(needs.postgresql()) as made:
        yield {"BRAID_DATABASE": made.new_database()}


class Life:
    """A root that one release after the other serves, and what its dataflows have sent so far."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._folder = folder
        self._settings = settings
        self._sent = 0
        self._outputs: dict[str, str] = {}
        """The topic of each dataflow's output, by its name."""
        self._events: dict[str, dict[int, Any]] = {}

    @contextmanager
    def served(self, program: Path) -> Iterator[Served]:
        """Serve the root, and stop in the end."""
        with serving(Served(self._folder, settings=self._settings, program=program)) as made:
            yield made
            for name, topic in self._outputs.items():
                self._take(made, name, topic)
            assert 0 == made.stop()

    def braid(self, served: Served, *words: str) -> Any:
        """What a command of the release that serves prints as JSON."""
        done = subprocess.run(  # noqa: S603 - our own command
            [str(served.program), *words, "--json"],
            env={**os.environ, "BRAID_ROOT": str(served.root), "BRAID_PORT": str(served.port), **self._settings},
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        return json.loads(done.stdout)

    def submit(self, served: Served, document: dict[str, Any]) -> None:
        path = self._folder / "document.json"
        path.write_text(json.dumps(document))
        answer = self.braid(served, "submit", str(path), "--tenant", "ann")
        self._outputs[document["name"]] = answer["outputs"][0]["topic"]
        self._events[document["name"]] = {}
        served.until(lambda: self.states(served)[document["name"]] == "running", "the dataflow to run")

    def states(self, served: Served) -> dict[str, str]:
        return {each["name"]: each["state"] for each in self.braid(served, "list")}

    def send(self, served: Served, many: int) -> None:
        """Publish events, and wait until those that read them from the first on have sent as many."""
        served.publish("city/street", ({"n": n, "k": "a"} for n in range(self._sent, self._sent + many)))
        self._sent += many
        served.until(lambda: all(self._complete(served, name) for name in ("counts", "up to 1000000")), "all events")

    def _complete(self, served: Served, name: str) -> bool:
        self._take(served, name, self._outputs[name])
        return len(self._events[name]) >= self._sent

    def _take(self, served: Served, name: str, topic: str) -> None:
        for message in served.heard(topic):
            for number, event in enumerate(message["events"], message["first"]):
                assert event == self._events[name].setdefault(number, event), f"number {number} of {name} is two events"

    def events(self, name: str) -> list[Any]:
        """What came for a dataflow, in order and without a hole."""
        known = self._events[name]
        assert list(range(len(known))) == sorted(known)
        return [known[number] for number in sorted(known)]


def test_nothing_is_lost_by_an_upgrade_nor_by_going_back(
    before: Path, tmp_path: Path, settings: dict[str, str]
) -> None:
    """Counts go on where they were, outputs have no hole and nothing twice, and dataflows of both releases run on."""
    life = Life(tmp_path, settings)
    with life.served(before) as old:
        (tmp_path / "source.json").write_text(json.dumps(SOURCE))
        life.braid(old, "tenants", "admit", "ann")
        life.braid(old, "sources", "register", str(tmp_path / "source.json"))
        life.submit(old, counting("ann:street"))
        life.submit(old, passing("ann:street", 1_000_000))
        life.send(old, 30)
        key = read_key(old.root)
    with life.served(BRAID) as new:
        assert {"counts": "running", "up to 1000000": "running"} == life.states(new)
        life.send(new, 30)
        life.submit(new, passing("ann:street", 50))
        assert key == read_key(new.root)
    refused = subprocess.run(  # noqa: S603 - our own command
        [str(before), "serve"],
        env={**os.environ, "BRAID_ROOT": str(new.root), "BRAID_PORT": str(new.port), **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 != refused.returncode
    assert "newer Braid" in refused.stderr + refused.stdout
    there = Served(tmp_path, settings=settings)
    life.braid(there, "downgrade", tables(before))
    with life.served(before) as again:
        assert {"counts", "up to 1000000", "up to 50"} == life.states(again).keys()
        life.send(again, 30)
        again.until(lambda: set(life.states(again).values()) == {"running"}, "all to run")
    assert [{"n": n, "k": "a"} for n in range(90)] == life.events("up to 1000000")
    assert list(range(1, 91)) == [event["count"] for event in life.events("counts")]
