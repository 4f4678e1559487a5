"""What guards and rules permit, from a document and looks at it."""

from typing import Any

from adaptation.decision import guards_of, permission, value_guards_of
from adaptation.documents import DynamicDocument
from adaptation.flow import FlowFigures, TaskMeasure, flow_of
from adaptation.guard_states import BEFORE_ANY_LOOK, DomainEvent, GuardStates, Observed, advance
from adaptation.guards import MetricKey
from tests.adaptation.drawn import read

NIGHT = {"clock": {"from": "22:00", "to": "06:00"}}
DOCUMENT: dict[str, Any] = {
    "version": 1,
    "name": "n",
    "tasks": [
        {"id": "s", "type": "source", "config": {"source": "meters"}},
        {
            "id": "a",
            "alternates": [
                {
                    "name": "fine",
                    "type": "noop",
                    "cost": 900,
                    "value": 2,
                    "when": {
                        "activate": {"metric": "rate", "below": 80},
                        "deactivate": {"metric": "rate", "above": 99},
                    },
                },
                {
                    "name": "learnt",
                    "type": "where",
                    "config": {"expression": "kw > 1"},
                    "cost": 100,
                    "value": {"event": "errors", "field": "mse", "factor": -1, "plus": 1, "otherwise": 0.5},
                    "when": {"activate": {"event": "errors", "within": 50}},
                },
            ],
        },
        {"id": "k", "type": "output"},
    ],
    "streams": [
        {"from": "s", "to": "a"},
        {"from": "a", "to": "k", "when": {"activate": {"event": "peak"}, "deactivate": {"event": "calm"}}},
    ],
    "policy": {
        "events": {name: {"dataflow": "other", "output": name} for name in ("peak", "calm", "errors")},
        "rules": [
            {"name": "night", "activate": NIGHT, "choose": {"a": "learnt"}},
            {"name": "flood", "activate": {"metric": "rate", "above": 500}, "choose": {"a": "fine", "a>k": True}},
        ],
    },
}
NOON, MIDNIGHT = 12 * 3_600.0, 24 * 3_600.0


def looked(dynamic: DynamicDocument, *looks: Observed) -> GuardStates:
    """The states of its guards after some looks."""
    states = BEFORE_ANY_LOOK
    for look in looks:
        guards, values = guards_of(dynamic, dynamic.policy), value_guards_of(dynamic)
        states = advance(guards, values, states, look)
    return states


def at(now: float, rate: float, *events: str) -> Observed:
    """A look, with the rate and some events that came."""
    fields = {"mse": 0.25}
    return Observed(
        now=now,
        metrics={MetricKey("rate", None): rate},
        events=tuple(DomainEvent(name=each, at=now, fields=fields) for each in events),
    )


def test_guards_permit_and_rules_fix() -> None:
    """A rule wins over guards, and an earlier rule over a later one."""
    dynamic = read(DOCUMENT)

    def permitted(*looks: Observed) -> tuple[set[str], bool, set[str]]:
        found = permission(dynamic, dynamic.policy, looked(dynamic, *looks), dynamic.first)
        return set(found.alternates["a"]), found.opened["a>k"], set(found.rules.values())

    assert ({"fine"}, False, set()) == permitted(at(NOON, 50))
    assert ({"fine"}, False, set()) == permitted(at(NOON, 50), at(NOON + 1, 90))
    assert ({"fine", "learnt"}, True, set()) == permitted(at(NOON, 50, "errors", "peak"), at(NOON + 1, 90))
    assert ({"learnt"}, False, set()) == permitted(at(NOON, 200, "errors", "peak"), at(NOON + 1, 200, "calm"))
    assert ({"learnt"}, False, {"night"}) == permitted(at(MIDNIGHT, 50))
    assert ({"learnt"}, True, {"night", "flood"}) == permitted(at(MIDNIGHT, 501))
    assert ({"fine"}, True, {"flood"}) == permitted(at(NOON, 501))


def test_if_no_alternate_is_allowed_the_one_that_runs_stays() -> None:
    """And it is said."""
    dynamic = read(DOCUMENT)
    found = permission(dynamic, dynamic.policy, looked(dynamic, at(NOON, 200)), dynamic.first)
    assert {"a": frozenset({"fine"})} == found.alternates
    assert {"a"} == found.unguarded


def test_a_document_flows_in_declared_numbers_until_others_are_measured() -> None:
    """Values are those of the best, and follow the newest event."""
    dynamic = read(DOCUMENT)
    (task,) = [each for each in flow_of(dynamic).tasks if each.is_dynamic]
    assert {"fine": (0.0009, 1.0, 1.0), "learnt": (0.0001, 1.0, 0.25)} == dict(task.alternates)
    numbers = looked(dynamic, at(NOON, 1, "errors")).numbers
    figures = FlowFigures(rates={"s": 10.0}, measured={("a", "fine"): TaskMeasure(0.002, 0.5)}, numbers=numbers)
    flow = flow_of(dynamic, figures)
    (task,) = [each for each in flow.tasks if each.is_dynamic]
    assert {"fine": (0.002, 0.5, 1.0), "learnt": (0.0001, 1.0, 0.375)} == dict(task.alternates)
    assert 0.02 == flow.need(dynamic.first)
