"""Reach: the actions and values that can occur in some plan, found by narrowing from both ends.

It may keep what occurs in no plan, but never drops what occurs in one. A solver could find the same, but a model of
everything costs more to build than to solve: 200 steps with 200 actions each are 40,000 literals.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from planning.constraint import UNSET, Domains, affected, narrowed, union
from planning.places import Entry, Place, base, entry, inlet, meetings
from planning.problem import Action, Goal, Meeting, Problem, Step, Stream

_ROUNDS = 4
"""Sweeps there and back; few problems change after the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What is left of a problem."""

    actions: Mapping[str, tuple[Action, ...]]
    """Those of each step."""
    domains: Mapping[Place, Domains]


class _Empty(Exception):
    """Nothing is left at some place."""


def reach(problem: Problem) -> Reach | None:
    """What can occur in some plan; None if there is certainly no plan."""
    try:
        return _Narrowing(problem).found()
    except _Empty:
        return None


class _Narrowing:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.types = frozenset(each.name for each in problem.variables if each.is_type)
        self.full = {each.name: each.domain for each in problem.variables}
        self.domains: dict[Place, Domains] = {}
        self.actions = {step.id: step.actions for step in problem.steps}
        for stream, given in problem.given.items():
            self.domains[stream] = {name: frozenset({given.get(name, UNSET)}) for name in self.full}

    def found(self) -> Reach:
        goals: dict[Stream, list[Goal]] = {}
        for goal in self.problem.goals:
            for stream in goal.streams:
                goals.setdefault(stream, []).append(goal)
        for stream in self.problem.given:
            self._aim(stream, goals)
        for _ in range(_ROUNDS):
            before = dict(self.domains)
            for step in self.problem.steps:
                self._meet(step)
                self._pass(step)
                for stream in step.streams():
                    self._aim(stream, goals)
            for step in reversed(self.problem.steps):
                self._pass(step)
                self._part(step)
            self._agree()
            if before == self.domains:
                break
        return Reach(actions=self.actions, domains=self.domains)

    def _aim(self, stream: Stream, goals: Mapping[Stream, list[Goal]]) -> None:
        for goal in goals.get(stream, ()):
            self._keep(stream, narrowed(goal.holds, self.domains[stream]))

    def _keep(self, place: Place, domains: Domains | None) -> None:
        if domains is None:
            raise _Empty
        known = self.domains.get(place)
        if known is not None and known is not domains:
            domains = _intersection(known, domains)
        self.domains[place] = domains

    def _meet(self, step: Step) -> None:
        """The states at ports and at the entry, from those that meet there."""
        for place, parts in meetings(step):
            found = [self.domains[part] for part in parts]
            met: dict[str, frozenset[str]] = {}
            for name in self.full:
                values = [each[name] for each in found]
                if name in self.types and isinstance(place, Entry):
                    # Types do not meet across ports; an action says which port's go on.
                    met[name] = self.full[name]
                elif self._equal(step, name):
                    met[name] = values[0].intersection(*values)
                else:
                    met[name] = values[0].union(*values)
            if not all(met.values()):
                raise _Empty
            self._keep(place, met)

    def _part(self, step: Step) -> None:
        """What is known at a meeting, back to the streams that meet there."""
        for place, parts in reversed(list(meetings(step))):
            met = self.domains[place]
            for part in parts:
                known = self.domains[part]
                self._keep(
                    part,
                    {
                        name: known[name] & met[name]
                        if self._equal(step, name) and not (name in self.types and isinstance(place, Entry))
                        else known[name]
                        for name in known
                    },
                )

    def _equal(self, step: Step, name: str) -> bool:
        return not step.mixes_types if name in self.types else step.meeting is Meeting.EQUAL

    def _pass(self, step: Step) -> None:
        """The actions that fit between what enters and what leaves, and what is left there because of them."""
        left, entries = [], []
        exits: dict[str, list[Domains]] = {port: [] for port in step.outputs}
        for action in self.actions[step.id]:
            fit = self._fit(step, action)
            if fit is not None:
                left.append(action)
                entries.append(fit[0])
                for port, domains in fit[1].items():
                    exits[port].append(domains)
        self.actions[step.id] = tuple(left)
        if not left:
            raise _Empty
        self._keep(entry(step), union(entries))
        for port, options in exits.items():
            self._keep(Stream(step.id, port), union(options))

    def _fit(self, step: Step, action: Action) -> tuple[Domains, dict[str, Domains]] | None:
        """The domains before and after an action; None if it does not fit."""
        before = narrowed(step.requires, self.domains[entry(step)])
        if before is None:
            return None
        for each in step.inputs:
            if each.port in action.requires:
                alone = inlet(step, each) == entry(step)
                required = narrowed(action.requires[each.port], before if alone else self.domains[inlet(step, each)])
                if required is None:
                    return None
                before = required if alone else before
        after: dict[str, Domains] = {}
        for port in step.outputs:
            found = self._after(step, action, port, before)
            if found is None:
                return None
            after[port] = found
            known = before
            kept = {
                name: known[name] & found[name]
                for name in known
                if name not in affected(action.ensured(port))
                and (name not in self.types or len(step.inputs) == 1)
                and found[name] is not known[name]
            }
            if not all(kept.values()):
                return None
            if kept:
                before = {**before, **kept}
        return before, after

    def _after(self, step: Step, action: Action, port: str, before: Domains) -> Domains | None:
        ensured = action.ensured(port)
        changes = affected(ensured)
        carried = before
        if len(step.inputs) > 1:
            types = self.domains[base(step, action)]
            carried = {name: types[name] if name in self.types else before[name] for name in before}
        free = {**carried, **{name: self.full[name] for name in changes}} if changes else carried
        known = self.domains.get(Stream(step.id, port))
        if known is not None:
            try:
                free = _intersection(free, known)
            except _Empty:
                return None
        found = narrowed(ensured, free)
        return None if found is None else narrowed(step.ensures, found)

    def _agree(self) -> None:
        """Steps that take the same action have the same choice."""
        for step in self.problem.steps:
            if step.same:
                one, two = self.actions[step.id], self.actions[step.same]
                names = {each.name for each in one} & {each.name for each in two}
                self.actions[step.id] = tuple(each for each in one if each.name in names)
                self.actions[step.same] = tuple(each for each in two if each.name in names)
                if not names:
                    raise _Empty


def _intersection(one: Domains, two: Domains) -> Domains:
    """The values in both; the first's own sets where nothing changes."""
    changed = {}
    for name, values in one.items():
        other = two[name]
        if values is not other and not values <= other:
            changed[name] = values & other
            if not changed[name]:
                raise _Empty
    return {**one, **changed} if changed else one
