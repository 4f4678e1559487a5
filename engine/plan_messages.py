"""Plans, requests for cuts, questions for the ends of spools and log entries as JSON, and the checks of plans."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import networkx as nx
from pydantic import TypeAdapter, ValidationError

from bridge.raw_events import DEEPEST_PARKED, deeper_than
from dags.dataflow import GROUPS
from engine.plan import SWITCH_MARKERS, Delivery, Entry, Forward, Plan, SlotState, declaring, is_switch, unfit


class RefusedPlan(ValueError):
    """A plan cannot be executed. Says which part of it, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRequest:
    """A request to a host: take a cut in the raw spools that it owns, or release one."""

    cut: str
    streams: tuple[str, ...] = ()
    """The spools to cut; empty for all."""
    release: bool = False
    """True if the cut's states are not needed any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsQuestion:
    """A question to a host: where some spools that it fills end by now."""

    asker: str
    """A name that only the asking process has."""
    number: int
    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsAnswer:
    """The answer to an `EndsQuestion`: the positions after the last items, found out after the question had come."""

    asker: str
    number: int
    ends: Mapping[str, int]
    """For each of the streams whose spool the host fills."""


_PLAN, _CUT, _QUESTION = TypeAdapter(Plan), TypeAdapter(CutRequest), TypeAdapter(EndsQuestion)
_ENTRY = TypeAdapter(Entry)
_T = TypeVar("_T")

written_plan: Callable[[Plan], bytes] = _PLAN.dump_json
written_cut: Callable[[CutRequest], bytes] = _CUT.dump_json
written_question: Callable[[EndsQuestion], bytes] = _QUESTION.dump_json
written_entry: Callable[[Entry], bytes] = _ENTRY.dump_json
read_entry: Callable[[bytes], Entry] = _ENTRY.validate_json
read_answer: Callable[[bytes], EndsAnswer] = TypeAdapter(EndsAnswer).validate_json
"""Raises ValueError, as `read_entry` does."""


def read_plan(text: bytes) -> Plan:
    """Read a plan from a message. Raises `RefusedPlan` with every reason."""
    plan = _read(_PLAN, "the plan", text)
    if problems := tuple(_problems(plan)):
        raise RefusedPlan(f"version {plan.version} of job {plan.job!r} cannot be executed: {'; '.join(problems)}")
    return plan


def _read(adapter: TypeAdapter[_T], what: str, text: bytes) -> _T:
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        details = (f"{'/'.join(map(str, wrong['loc'])) or 'all'}: {wrong['msg'].lower()}" for wrong in error.errors())
        raise RefusedPlan(f"{what} cannot be read: {'; '.join(details)}") from error


read_cut: Callable[[bytes], CutRequest] = partial(_read, _CUT, "the request for a cut")
read_question: Callable[[bytes], EndsQuestion] = partial(_read, _QUESTION, "the question for the ends of spools")
"""Both raise `RefusedPlan`."""


def _problems(plan: Plan) -> Iterator[str]:
    names = [slot.instance for slot in plan.slots]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        yield f"instance {twice[0]} has two slots; give it one"
        return
    yield from _problems_of_wiring(plan)
    yield from _problems_of_ends(plan)
    yield from _problems_of_feeds(plan)
    yield from _problems_of_switch(plan)
    if plan.at and plan.at_cut:
        yield "it names both positions and a cut to take effect at; choose one"
    if plan.pace <= 0:
        yield "its pace is not more than 0 seconds"
    if not 1 <= plan.shards <= GROUPS:
        yield f"it has {plan.shards} shards; choose 1 to {GROUPS}"
    elif plan.groups and (len(plan.groups) != GROUPS or not set(plan.groups) <= set(range(plan.shards))):
        yield f"its groups are not one of its {plan.shards} shards for each of {GROUPS} key groups; leave them out"


def _problems_of_wiring(plan: Plan) -> Iterator[str]:
    entering = {ingress.origin for ingress in plan.ingress}
    for ingress in plan.ingress:
        if why := unfit(ingress.supply):
            yield f"the stream {ingress.stream!r} cannot be supplied: {why}"
    known = {slot.instance: slot for slot in plan.slots}
    if both := sorted(known.keys() & {ingress.instance for ingress in plan.ingress}):
        yield f"instance {both[0]} has a slot and also enters; remove one of the two"
    for slot in plan.slots:
        for edge in slot.inputs if slot.state is SlotState.ACTIVE else ():
            parent = known.get(edge.parent)
            if edge.origin in entering:
                continue
            if parent is None:
                yield f"instance {slot.instance} reads from {edge.parent}, which neither runs here nor enters"
            elif parent.state is SlotState.PAUSED:
                yield f"instance {slot.instance} is active and reads from {edge.parent}, which is paused"
    if not nx.is_directed_acyclic_graph(plan.graph(plan.slots)):
        yield "its instances form a cycle"


def _problems_of_switch(plan: Plan) -> Iterator[str]:
    slots = {slot.instance for slot in plan.slots}
    named = [change.instance for change in plan.changes]
    if missing := sorted(set(named) - slots):
        yield f"the state of instance {missing[0]} changes, but the instance has no slot"
    if len(set(named)) < len(named):
        yield "the state of one instance changes twice; list it once"
    if (switch := plan.switch) is None:
        return
    if not is_switch(switch.marker):
        yield f"the marker {switch.marker!r} of its switch does not begin with {SWITCH_MARKERS!r}"
    if unsent := sorted(set(switch.announces) - {forward.origin for forward in plan.forwards}):
        yield f"its switch announces a stream of instance {unsent[0].instance} that the plan does not forward"
    if switch.awaits and (plan.at or plan.at_cut):
        yield "it waits for markers and for something else to take effect at; choose one"


def _problems_of_feeds(plan: Plan) -> Iterator[str]:
    for feed in plan.feeds:
        try:
            events = json.loads(feed.events)
        except (ValueError, RecursionError):
            events = None
        if not isinstance(events, list):
            yield f"the events of feed {feed.id} are not a JSON array"
        elif any(deeper_than(event, DEEPEST_PARKED) for event in events):
            yield f"an event of feed {feed.id} is nested deeper than {DEEPEST_PARKED} levels; flatten it"


def _problems_of_ends(plan: Plan) -> Iterator[str]:
    if len({ingress.origin for ingress in plan.ingress}) < len(plan.ingress):
        yield "two ingress streams stand for the same port of an instance; list it once"
    supplies = {(ingress.stream, str(declaring(ingress.supply, {}))) for ingress in plan.ingress}
    if len(plan.streams) < len(supplies):
        yield "one stream has two supplies; give the streams different names"
    running = plan.instances
    leaving: tuple[Forward | Delivery, ...] = (*plan.forwards, *plan.deliveries)
    for output in leaving:
        if output.instance not in running:
            yield f"the output of instance {output.instance} leaves the job, but the instance has no slot"
