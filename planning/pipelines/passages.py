"""Passages: what a task needs of the fields that enter, and which fields leave it.

A task type says that by a function of whole schemas. Planning needs it field by field, for streams whose schema is not
known yet, so the function is asked about small schemas: only the fields that the task reads, and one that it cannot
know. A document that a plan makes is checked again, whole.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, product

from dags import AnyTaskType, Config, Kind, Schema, State
from planning.forms import CodeForm

_MOST_CASES = 64
_MOST_TRIES = 2_000
"""Choices of kinds about which a type is asked."""
_UNKNOWN = "\x00"
"""Begins the name of a field that no task can know."""

Kinds = Mapping[str, frozenset[Kind]]
Pair = tuple[Kind, Kind]
Read = tuple[str, str]
"""An input port, and a field that is read there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """The fields that leave at an output port."""

    sets: Mapping[str, Kind] = field(default_factory=dict)
    drops: frozenset[str] = frozenset()
    keeps: frozenset[str] = frozenset()
    """The fields that leave as they entered; only if the rest does not."""
    rest: str = ""
    """The input port whose other fields leave too; empty if none do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One case of a task: what it does with fields of certain kinds."""

    needs: Mapping[str, Kinds]
    """By input port."""
    leaves: Mapping[str, Leaving]
    """By output port."""
    binds: Mapping[str, Kind] = field(default_factory=dict)
    """The kinds of type variables."""

    def fields(self) -> frozenset[str]:
        """Every field that it speaks of."""
        needed = {name for kinds in self.needs.values() for name in kinds}
        return frozenset(needed).union(
            *(leaving.sets.keys() | leaving.drops | leaving.keeps for leaving in self.leaves.values())
        )


def passages_of_type(kind: AnyTaskType, config: Config, ports: Sequence[str]) -> tuple[Passage, ...]:
    """The cases of a task of an installed type with streams at some input ports."""
    reads = _reads(kind, config, ports)
    first = {read: min(kinds) for read, kinds in reads.items()}
    base = _asked(kind, config, ports, first)
    mattering = [
        read
        for read, kinds in reads.items()
        if (base is None and len(kinds) > 1)
        or not all(
            _alike(read, base, _asked(kind, config, ports, {**first, read: other}), (first[read], other))
            for other in kinds
        )
    ]
    cases: list[Passage] = []
    for chosen in islice(product(*(sorted(reads[read]) for read in mattering)), _MOST_TRIES):
        if len(cases) == _MOST_CASES:
            break
        kinds = dict(zip(mattering, chosen, strict=True))
        leaving = _asked(kind, config, ports, first | kinds)
        if leaving is not None:
            needs: dict[str, dict[str, frozenset[Kind]]] = {}
            for (port, name), known in reads.items():
                needs.setdefault(port, {})[name] = frozenset({kinds[port, name]}) if (port, name) in kinds else known
            cases.append(
                Passage(
                    needs=needs,
                    leaves={
                        port: _leaving(schema, ports, first | kinds, mattering) for port, schema in leaving.items()
                    },
                )
            )
    return tuple(cases)


def passages_of_code(code: CodeForm) -> tuple[Passage, ...]:
    """The cases of code: one for each choice of kinds for its type variables."""
    kinds = {name: sorted(kinds_of(name, code)) for name in code.types}
    cases = []
    for chosen in islice(product(*kinds.values()), _MOST_CASES):
        known = dict(zip(kinds, chosen, strict=True))
        named = {**{kind.value: kind for kind in Kind}, **known}
        cases.append(
            Passage(
                binds=known,
                needs={"in": {name: frozenset({named[kind]}) for name, kind in code.input.items()}},
                leaves={
                    "out": Leaving(
                        sets={name: named[kind] for name, kind in code.output.fields.items()},
                        drops=frozenset(code.output.drop),
                        rest="in" if code.output.rest else "",
                    )
                },
            )
        )
    return tuple(cases)


def kinds_of(name: str, code: CodeForm, above: tuple[str, ...] = ()) -> frozenset[Kind]:
    """The kinds of a type variable. Raises `ValueError` if it is defined by itself, `KeyError` for an unknown one."""
    if name in above:
        raise ValueError(name)
    kinds: frozenset[Kind] = frozenset()
    for kind in code.types[name]:
        kinds |= frozenset({Kind(kind)}) if kind in set(Kind) else kinds_of(kind, code, (*above, name))
    return kinds


def _reads(kind: AnyTaskType, config: Config, ports: Sequence[str]) -> dict[Read, frozenset[Kind]]:
    reads: dict[Read, frozenset[Kind]] = {}
    for read in kind.reads(config):
        if read.port in ports:
            place = (read.port, read.field)
            reads[place] = reads.get(place, frozenset(Kind)) & read.kinds
    if kind.state is State.KEY:
        for port in ports:
            for name in kind.key_fields(config):
                reads.setdefault((port, name), frozenset(Kind))
    return {place: kinds for place, kinds in reads.items() if kinds}


def _asked(
    kind: AnyTaskType, config: Config, ports: Sequence[str], kinds: Mapping[Read, Kind]
) -> Mapping[str, Schema] | None:
    """The schemas that leave, if only the known fields enter; None if the type refuses them."""
    if kind.is_sink:
        return {}
    entering = {
        port: Schema.of(
            {name: known for (at, name), known in kinds.items() if at == port} | {_UNKNOWN + port: Kind.JSON}
        )
        for port in ports
    }
    # Third parties may raise anything. The document that a plan makes is checked again, and says why.
    with suppress(Exception):
        return kind.output_schema(config, entering)
    return None


def _alike(read: Read, one: Mapping[str, Schema] | None, two: Mapping[str, Schema] | None, kinds: Pair) -> bool:
    """Whether the second kind of a field that is read changes nothing but that field itself, if it goes on."""
    if one is None or two is None:
        return one is two
    _, name = read
    for port, schema in one.items():
        other = two[port]
        goes_on = schema.fields.get(name) == kinds[0]
        if other.fields.get(name) != (kinds[1] if goes_on else schema.fields.get(name)):
            return False
        others = (set(schema.fields) | set(other.fields)) - {name}
        if any(schema.fields.get(other_name) != other.fields.get(other_name) for other_name in others):
            return False
    return True


def _leaving(schema: Schema, ports: Sequence[str], kinds: Mapping[Read, Kind], mattering: Sequence[Read]) -> Leaving:
    rest = next((port for port in ports if _UNKNOWN + port in schema.fields), "")
    base = rest or (ports[0] if ports else "")
    entered = {name: kind for (port, name), kind in kinds.items() if port == base}
    left = {name: kind for name, kind in schema.fields.items() if not name.startswith(_UNKNOWN)}
    same = {name for name, kind in left.items() if entered.get(name) == kind and (base, name) not in mattering}
    return Leaving(
        sets={name: kind for name, kind in left.items() if name not in same},
        drops=frozenset(entered.keys() - left.keys()) if rest else frozenset(),
        keeps=frozenset() if rest else frozenset(same),
        rest=rest,
    )
