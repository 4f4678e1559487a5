"""The built-in repository and the 35 dataflows that are drawn of it, counted by canonical forms and a merge."""

import random
from statistics import median
from typing import Any

import pytest

from engine import installed_catalogue
from workloads.loading import load_workload
from workloads.opmw.counting import canonical, shared
from workloads.opmw.describing import dataflows_of, no_output
from workloads.opmw.drawing import opmw
from workloads.opmw.encoding import SourcesBy, registered
from workloads.opmw.repository import TARGETS, is_chain, repository
from workloads.opmw.templates import Step, Template


def only(wanted: Any, found: Any) -> Any:
    """As much of what was found as is wanted."""
    return {name: only(each, found[name]) for name, each in wanted.items()} if isinstance(wanted, dict) else found


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ({"a": ()}, True),
        ({"a": (), "b": "a", "c": "b"}, True),
        ({"a": (), "b": "a", "c": "a"}, False),
        ({"a": (), "b": (), "c": "ab"}, False),
        ({"a": (), "b": ()}, False),
    ],
)
def test_chain(parents: dict[str, str], expected: bool) -> None:  # noqa: FBT001 - an example
    """A template is a chain where each step but the first follows one, and none is followed by several."""
    steps = tuple(Step(name=name, component="Sort", uses=tuple(uses), gives=(name,)) for name, uses in parents.items())
    assert expected == is_chain(Template(name="t", steps=steps, variables=()))


def test_repository() -> None:
    """The 70 templates have exactly the statistics of the published ones, in every encoding."""
    assert TARGETS == only(TARGETS, opmw().about["repository"]["reached"])


def test_blind_draws() -> None:
    """35 drawn blindly share 25 to 28 % in the median, as of the published ones."""
    dataflows = dataflows_of(repository(), installed_catalogue(), SourcesBy.TYPE)
    dice = random.Random(1)
    shares = [shared(dice.sample(dataflows, 35), no_output).share for _ in range(40)]
    assert 0.25 <= median(shares) <= 0.28


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, 1_000_003])
def test_drawn(seed: int) -> None:
    """Whatever the seed, 35 dataflows look like the repository, and share 37.8 % of what they are but for outputs."""
    workload = opmw(seed)
    dataflows = canonical(
        workload.dataflows.items(), installed_catalogue(), registered(tuple(each.name for each in workload.sources))
    )
    sizes = [sum(task["type"].startswith("opmw:") for task in each["tasks"]) for each in workload.dataflows.values()]
    assert (35, 1, 3, 18) == (len(sizes), min(sizes), median(sizes), max(sizes))
    assert 4.97 == pytest.approx(sum(sizes) / 35, abs=0.25)
    assert sizes.count(1) in {5, 6}
    assert workload.about["drawn"]["reached"]["chains"] in {17, 18, 19}
    assert 0.378 == pytest.approx(shared(dataflows, no_output).share, abs=0.0025)


def test_joined() -> None:
    """Where steps join, the dataflows are the same, and so is what they share; traces name the workload apart."""
    joined = opmw(3, inputs="join")
    assert "opmw-join:3" == joined.name
    assert load_workload(joined.name).dataflows == joined.dataflows
    assert opmw(3).dataflows.keys() == joined.dataflows.keys()
    types = {task["type"].partition(":")[0] for each in joined.dataflows.values() for task in each["tasks"]}
    assert {"opmw", "opmw-join", "source", "output"} == types
    registry = registered(tuple(each.name for each in joined.sources))
    apart, together = (
        shared(canonical(each.dataflows.items(), installed_catalogue(), registry)) for each in (opmw(3), joined)
    )
    assert apart == together


def test_seeds() -> None:
    """A seed always gives the same workload, another one another; documents are named as the dataflows are."""
    assert opmw(7).dataflows == opmw(7).dataflows
    assert set(opmw(7).dataflows) != set(opmw(8).dataflows)
    assert ("opmw", "opmw:7") == (opmw().name, opmw(7).name)
    assert all(name == document["name"] for name, document in opmw().dataflows.items())
