"""The decision which alternates run: pure, from what guards permit, what flows, what stands, and what is asked.

- What is no longer permitted is changed at once; the rest stays if it still fits.
- If less than the target, less the tolerance, would be worked off, the best choice that fits is taken at once.
- A better choice is taken if it fits with the tolerance as margin, has done so for a while, and nothing that it changes
  was changed recently.

So under a constant load it changes at most twice: to what fits, and to the best that does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from adaptation.best_choice import ChoiceSpace, best_choice
from adaptation.documents.dynamic_document import Selection
from adaptation.documents.dynamic_form import Policy
from adaptation.flow import FlowGraph
from adaptation.permission import Permission

_NEARLY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a better choice waits."""

    steady_s: float = 15.0
    """It must have been there for so long."""
    cool_down_s: float = 60.0
    """And what it changes must have stood for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingChoice:
    """What stands, and since when."""

    choice: Selection
    since: Mapping[str, float] = field(default_factory=dict)
    """When each task or stream was changed, by its id or name."""
    better_since: float | None = None
    """Since when there has been a better choice, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a decision rests on."""

    flow: FlowGraph
    permission: Permission
    policy: Policy
    cores: float
    """Those that are there for the dataflow."""
    now: float
    patience: Patience = field(default_factory=Patience)

    @property
    def limit(self) -> float:
        """The cores that it may use."""
        return self.cores if self.policy.cores is None else min(self.cores, self.policy.cores)

    @property
    def target(self) -> float:
        """The share that must be worked off: all, if there is a bound on latency, since a backlog would grow."""
        return self.policy.throughput if self.policy.latency is None else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceDecision:
    """What shall run from now on; made by `decide`."""

    choice: Selection
    reasons: tuple[str, ...]
    """Why each change is made; empty if nothing changes."""
    omega: float
    """The share that is expected to be worked off."""
    value: float
    cores: float
    """The cores that it needs to work off everything."""
    standing: StandingChoice
    """What the next decision is given."""


def decide(ground: Ground, standing: StandingChoice) -> ChoiceDecision:
    """The choice from now on."""
    kept = replace(standing.choice, opened=ground.permission.opened)
    forced = [task for task, name in kept.alternates.items() if name not in ground.permission.alternates[task]]
    if forced:
        # The rest stays, if it can.
        fixed = {task: frozenset({name}) for task, name in kept.alternates.items() if task not in forced}
        found = best_choice(_space(ground, kept, fixed), ground.limit / ground.target)
        if _is_overloaded(ground, found):
            found = best_choice(_space(ground, kept), ground.limit / ground.target)
        return _decision(ground, standing, found, "")
    if _is_overloaded(ground, kept):
        found = best_choice(_space(ground, kept), ground.limit / ground.target)
        if ground.flow.need(found) < ground.flow.need(kept) * (1 - _NEARLY):
            why = f"it needs {ground.flow.need(kept):.3g} cores of {ground.limit:.3g}, so less than the target is done"
            return _decision(ground, standing, found, why)
        return _decision(ground, standing, kept, "")
    return _improved(ground, standing, kept)


def expected_omega(need: float, cores: float) -> float:
    """The share that is worked off by some cores.

    >>> expected_omega(2.0, 1.0), expected_omega(0.5, 1.0)
    (0.5, 1.0)
    """
    return 1.0 if need <= cores else cores / need


def _improved(ground: Ground, standing: StandingChoice, kept: Selection) -> ChoiceDecision:
    """A better choice than what fits, if it has been there for a while."""
    found = best_choice(_space(ground, kept), ground.limit / (ground.target + ground.policy.tolerance))
    if _is_overloaded(ground, found) or not _is_better(ground, found, kept):
        return _decision(ground, standing, kept, "")
    since = ground.now if standing.better_since is None else standing.better_since
    patience = ground.patience
    changed = [task for task, name in found.alternates.items() if kept.alternates[task] != name]
    newest = max((standing.since[task] for task in changed if task in standing.since), default=None)
    is_cool = newest is None or ground.now - newest >= patience.cool_down_s
    if ground.now - since < patience.steady_s or not is_cool:
        return _decision(ground, replace(standing, better_since=since), kept, "", is_waiting=True)
    why = f"it fits in {ground.limit:.3g} cores with {ground.flow.need(found):.3g}, and is {_gain(ground, found, kept)}"
    return _decision(ground, standing, found, why)


def _is_better(ground: Ground, found: Selection, kept: Selection) -> bool:
    """Whether it has more value, or as much for clearly less."""
    gain = ground.flow.value(found.alternates) - ground.flow.value(kept.alternates)
    margin = max(ground.policy.tolerance, _NEARLY)
    saves = ground.flow.need(found) < ground.flow.need(kept) * (1 - margin)
    fits = ground.flow.need(found) * (ground.target + ground.policy.tolerance) <= ground.limit
    return fits and (gain > _NEARLY or (abs(gain) <= _NEARLY and saves))


def _gain(ground: Ground, found: Selection, kept: Selection) -> str:
    before, after = ground.flow.value(kept.alternates), ground.flow.value(found.alternates)
    return f"of value {after:.3g} rather than {before:.3g}" if after - before > _NEARLY else "as good for less"


def _is_overloaded(ground: Ground, choice: Selection) -> bool:
    """Whether less than the target is worked off, beyond the tolerance."""
    return ground.flow.need(choice) * max(ground.target - ground.policy.tolerance, 0.0) > ground.limit


def _space(ground: Ground, kept: Selection, fixed: Mapping[str, frozenset[str]] | None = None) -> ChoiceSpace:
    permitted = {**ground.permission.alternates, **(fixed or {})}
    return ChoiceSpace(
        flow=ground.flow,
        alternates={task: sorted(names) for task, names in permitted.items()},
        opened=ground.permission.opened,
        present=kept.alternates,
    )


def _decision(
    ground: Ground, standing: StandingChoice, choice: Selection, why: str, *, is_waiting: bool = False
) -> ChoiceDecision:
    before = standing.choice
    changed = {task for task, name in choice.alternates.items() if before.alternates[task] != name}
    changed |= {stream for stream, is_open in choice.opened.items() if before.opened[stream] != is_open}
    need = ground.flow.need(choice)
    return ChoiceDecision(
        choice=choice,
        reasons=tuple(_reasons(ground, before, choice, why)),
        omega=expected_omega(need, ground.limit),
        value=ground.flow.value(choice.alternates),
        cores=need,
        standing=StandingChoice(
            choice=choice,
            since={**standing.since, **dict.fromkeys(changed, ground.now)},
            better_since=standing.better_since if is_waiting else None,
        ),
    )


def _reasons(ground: Ground, before: Selection, after: Selection, why: str) -> Iterator[str]:
    allowed, rules = ground.permission.alternates, ground.permission.rules
    for task, name in after.alternates.items():
        was = before.alternates[task]
        if was == name:
            continue
        reason = why or "the others need its cores"
        if was not in allowed[task]:
            reason = f"the rule {rules[task]!r} is active" if task in rules else f"the guard of {was!r} is not active"
        yield f"{task}: {was!r} becomes {name!r}, since {reason}"
    for stream, is_open in after.opened.items():
        if before.opened[stream] != is_open:
            by_guard = f"its guard is {'active' if is_open else 'not active'}"
            reason = f"the rule {rules[stream]!r} is active" if stream in rules else by_guard
            yield f"{stream}: {'opens' if is_open else 'closes'}, since {reason}"
