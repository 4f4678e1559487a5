"""Packages that only some tasks need."""

import re
import subprocess
import sys
from typing import Any

import pytest

from dags import Kind, Schema
from engine.behaviour import NoBehaviour
from engine.trial import try_out

SCHEMA = Schema.of(v=Kind.FLOAT, w=Kind.INTEGER)


@pytest.mark.parametrize(
    ("type_", "config", "package", "remedy"),
    [
        ("decision_tree_train", {"fields": ["v"]}, "sklearn.tree", "install braid[predictive]"),
        (
            "linear_regression_train",
            {"fields": ["v"], "target": "w"},
            "sklearn.linear_model",
            "install braid[predictive]",
        ),
        ("distinct_approx_count", {"field": "v"}, "datasketches", "install braid[sketches]"),
        ("line_plot", {"field": "v"}, "matplotlib", "install it"),
        ("multi_line_plot", {"field": "v"}, "matplotlib", "install it"),
    ],
)
def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, type_: str, config: dict[str, Any], package: str, remedy: str
) -> None:
    """With a remedy. Only tasks that need it fail, and only when they are made."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NoBehaviour, match=re.escape(f"{remedy} on every worker")):
        try_out(type_, config, [], SCHEMA)


def test_no_package_is_loaded_before_it_is_needed() -> None:
    """Documents are checked, and other tasks run, without the extras."""
    code = (
        "import sys; import engine.tasks; from engine.behaviour import *; places = installed_behaviours(); "
        "[implementation_of(name, places) for name in places if 'outside' not in places[name]]; "
        "print([name for name in ('datasketches', 'matplotlib', 'sklearn', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert "[]\n" == done.stdout
