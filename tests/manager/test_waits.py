"""Commands that wait for what others begin: a host, a machine, a dead letter."""

import pytest

from manager import cli
from manager.exit_codes import ExitCode
from tests.braid_client.samples import DEAD_LETTER, HOST, MACHINE
from tests.braid_client.scripted_service import ok, page
from tests.manager.braid_runner import Braid


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_LOOK_EVERY", 0.0)


def test_a_host_is_waited_for(braid: Braid) -> None:
    """Until it is there and alive; what is waited for is said once, on standard error."""
    seen = [page(), page(HOST | {"alive": False}), page(HOST)]
    result = braid("hosts", "--wait", "local", answers=seen)
    assert (0, "host local has not reported itself yet\n") == (result.exit_code, result.stderr)
    assert "local" in result.stdout


def test_dead_letters_are_waited_for(braid: Braid) -> None:
    """Until there is one of those that were asked for."""
    result = braid("dead-letters", "list", "--dataflow", "d1", "--wait", answers=[page(), page(), page(DEAD_LETTER)])
    assert (0, "no dead letter yet\n") == (result.exit_code, result.stderr)
    assert "no number" in result.stdout
    assert 3 * ["GET /v1/dead-letters?dataflow=d1&limit=100"] == braid.requests()


def test_a_machine_is_admitted_once_it_has_reported_itself(braid: Braid) -> None:
    """Before that, there is nothing to admit."""
    result = braid("machines", "admit", "north", "--wait", answers=[page(), page(MACHINE), ok(MACHINE)])
    assert (0, "north is admitted\n") == (result.exit_code, result.stdout)
    assert ["POST"] == [asked.partition(" ")[0] for asked in braid.requests()][2:]


@pytest.mark.parametrize("words", ["hosts --wait local", "dead-letters list --wait"])
def test_what_does_not_come_has_an_exit_code(braid: Braid, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """A command that has waited in vain does not end as if it had not."""
    monkeypatch.setattr(cli, "WAIT_SECONDS", 0.0)
    assert ExitCode.LATER == braid(*words.split(), answers=[page()]).exit_code
