"""A pytest plugin: the line before pytest's last one says what was not run, and how to have it run."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

TARGETS = {"chaos": "make chaos", "slow": "make slow", "bare": "make bare", "full": "make test-all"}
"""What runs the tests that a mark leaves out; of several marks the first one here counts."""
_LEFT = pytest.StashKey[Counter[str]]()


def wording(skipped: Mapping[str, int], left: Mapping[str, int]) -> str:
    """The line: how many tests were skipped for which reason, and how many are left to which target.

    >>> wording({"for want of mosquitto: apt-get install mosquitto": 159}, {"make test-all": 1})
    '159 tests were skipped for want of mosquitto: apt-get install mosquitto; 1 test is left to make test-all'
    """
    parts = [f"{_tests(number, 'was', 'were')} skipped {reason}" for reason, number in sorted(skipped.items())]
    parts += [f"{_tests(number, 'is', 'are')} left to {target}" for target, number in sorted(left.items())]
    return "; ".join(parts)


def _tests(number: int, one: str, many: str) -> str:
    return f"1 test {one}" if number == 1 else f"{number} tests {many}"


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.stash[_LEFT] = Counter()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count what a mark leaves out."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if target := next((TARGETS[name] for name in TARGETS if name in marks), None):
            item.config.stash[_LEFT][target] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have a worker of pytest-xdist send what it counted."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        left: Counter[str] = session.config.stash[_LEFT]
        output["left"] = dict(left)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker counted; each of them has left out the same."""
    left: dict[str, int] | None = getattr(node, "workeroutput", {}).get("left")
    if left is not None:
        node.config.stash[_LEFT] = Counter(left)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Write the line after all other summaries, so that only pytest's own closing line follows."""
    yield
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", ()))
    left: Counter[str] = terminalreporter.config.stash[_LEFT]
    if line := wording(reasons, left):
        terminalreporter.write_line(line)


def _reason(report: pytest.TestReport) -> str:
    """Why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = text.removeprefix("Skipped: ")
    return reason if reason.startswith("for want of ") else f"because {reason}"
