"""Names that the doctests may use, how hard hypothesis searches, and that no clock decides what is planned."""

import importlib
import math
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

import dags.canonical
from merge.grouping import problem
from tests import needs, notation

pytest_plugins = ["tests.closing_line"]
# Scripts that alembic runs; they have no doctests.
collect_ignore = ["manager/store/migrations"]
# Whole dataflows are slow to draw and have no natural deadline. Nothing is kept from one run for the next. All but
# `make explore` draw the same examples each time, so that a test that fails has a reason in what was changed.
_COMMON = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _COMMON, max_examples=20, derandomize=True)
settings.register_profile("explore", _COMMON, max_examples=500)
# On another Python it is the code that may fail, hardly a certain example.
settings.register_profile("few", _COMMON, max_examples=4, derandomize=True)
# Whether a test fails is all that is asked there, so no smaller example is looked for.
settings.register_profile(
    "mutation", _COMMON, max_examples=15, derandomize=True, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("default")


def pytest_xdist_auto_num_workers() -> int:
    """Four at a time on two cores, because tests that run processes mostly wait for them."""
    return 2 * (os.cpu_count() or 1)


@pytest.fixture(autouse=True)
def _needs_of_the_platform(request: pytest.FixtureRequest) -> None:
    """A mark names what a test needs."""
    if request.node.get_closest_marker("mosquitto"):
        needs.mosquitto()
    if request.node.get_closest_marker("chromium"):
        needs.chromium()
    if request.node.get_closest_marker("postgresql"):
        needs.postgresql()


@pytest.fixture(autouse=True)
def _no_clock_in_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other tests the solver would run out of patience now and then, and find other groups than it else does."""
    monkeypatch.setattr(problem, "PATIENCE", math.inf)


@pytest.fixture(autouse=True)
def _names_for_doctests(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """Doctests of the passes write dataflows in one line, see `tests/notation.py`, and call any pass by name.

    Those of the task library try tasks out.
    """
    passes = {name: thing for name, thing in vars(dags.canonical).items() if not name.startswith("__")}
    # Expressions have a function of this name, too.
    doctest_namespace |= {name: thing for name, thing in passes.items() if name != "read"}
    doctest_namespace |= {"draft": notation.draft, "accepted": notation.accepted}
    if request.node.nodeid.startswith(("engine/implementations/", "engine/code/")):
        # Only then, because it loads most of an engine.
        names = importlib.import_module("tests.documentation.task_library").EXAMPLE_NAMES
        doctest_namespace |= {name: getattr(importlib.import_module(where), name) for name, where in names.items()}
