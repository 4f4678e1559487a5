"""Modules: published implementations for the open places of pipelines, read from their forms.

The config that a module fixes is checked by its task type before it is published. What an installed type needs besides
may come from the point. So a field that is missing is no problem here, nor is what several fields have to do with each
other. The config of code is complete. Code names the hosts that it connects to, each with a port, and the packages that
it requires, each pinned to one version.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv6Address
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dags import AnyTaskType, Catalogue, InvalidDocument, Kind, Problem
from dags.internet_addresses import spelling
from dags.json_text import describe_error, place_in_config, read_form
from dags.problems import listed, problem_at, quoted, suggestion
from dags.vocabulary import ModuleShape
from planning.constraint import UNSET, Constraint
from planning.forms import (
    JOINING,
    MOST_SOURCE,
    MOST_WORTH,
    CodeForm,
    ConstraintReader,
    Domains,
    ModuleForm,
    StateForm,
    value_text,
)
from planning.pipelines.passages import kinds_of

_NAMED = re.compile(r"([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]):([1-9][0-9]{0,4})")
_MOST_PORT = 65_535
_MOST_NAME = 253


def target(text: str) -> str:
    """A target in its one spelling. Raises `ValueError` for a text that does not name a host with a port.

    >>> target("Example.org.:443"), target("[2001:DB8:0::1]:80")
    ('example.org:443', '[2001:db8::1]:80')
    """
    matched = _NAMED.fullmatch(text.lower().replace(".:", ":"))
    if matched is None or int(matched[2]) > _MOST_PORT or len(matched[1]) > _MOST_NAME:
        raise ValueError(text)
    if not matched[1].startswith("["):
        return matched[0]
    return f"[{spelling(IPv6Address(matched[1][1:-1]))}]:{matched[2]}"


_PINNED = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*==\s*([A-Za-z0-9.!+_-]+)")


def pinned(text: str) -> tuple[str, str]:
    """The name and the version of a requirement, in their normal forms. Raises `ValueError` if it wants no version.

    >>> pinned("My_Package == 1.00")
    ('my-package', '1.0')
    """
    matched = _PINNED.fullmatch(text.strip())
    if matched is None:
        raise ValueError(text)
    return str(canonicalize_name(matched[1])), str(Version(matched[2]))


def installed_problems(config: Mapping[str, Any], kind: AnyTaskType) -> Iterator[Problem]:
    """What is wrong with a part of a config, in the form of its module."""
    for detail in _errors(config, kind):
        is_open = not detail["loc"] or (detail["type"] == "missing" and len(detail["loc"]) == 1)
        if not is_open:
            yield _problem(detail, kind, ["installed", "config", *place_in_config(detail, config)[0]])


def code_problems(config: Mapping[str, Any], kind: AnyTaskType) -> Iterator[Problem]:
    """What is wrong with the config of code, in the form of its module."""
    for detail in _errors(config, kind):
        place, _ = place_in_config(detail, config)
        # The form has the fields that it needs one level higher, and what it keeps one lower.
        inner = ["state", *place] if place[:1] and place[0] in StateForm.model_fields else place
        yield _problem(detail, kind, ["code", *(place[:1] + place[2:] if place[:2] == ["input", "in"] else inner)])


def _errors(config: Mapping[str, Any], kind: AnyTaskType) -> list[ErrorDetails]:
    try:
        kind.config.model_validate_json(json.dumps(config))
    except ValidationError as error:
        return error.errors(include_url=False, include_input=False)
    except Exception as error:  # noqa: BLE001 - third parties may raise anything
        message = f"the task type {quoted(kind.name)} failed: {type(error).__name__}"
        return [{"type": "value_error", "loc": ("",), "msg": message, "input": None}]
    return []


def _problem(detail: ErrorDetails, kind: AnyTaskType, place: Sequence[str | int]) -> Problem:
    known = [field.alias or name for name, field in kind.config.model_fields.items()] if len(detail["loc"]) == 1 else []
    return problem_at(*describe_error(detail, known), *place)


_CODE_TYPE, _CONNECTING_TYPE, _STATEFUL_TYPE = "code", "connecting_code", "stateful_code"
TYPES_OF_CODE = frozenset({_CODE_TYPE, _CONNECTING_TYPE, _STATEFUL_TYPE})
"""The task types of modules that are code: of those that do neither, of those that connect, and of those that keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A version of a module; made by `read_module`."""

    form: ModuleForm
    require: Constraint
    ensure: Constraint
    domains: Mapping[str, frozenset[str]]
    owner: str = ""
    """The tenant who published it, or empty for an operator."""
    wheels: tuple[str, ...] = ()
    """The digests of the wheels that its code imports from."""

    @property
    def name(self) -> str:
        """The name and version, as points may name it."""
        return f"{self.form.name}@{self.form.version}"

    @property
    def type(self) -> str:
        """The task type of its tasks."""
        return type_of(self.form)

    def excesses(self) -> Iterator[Problem]:
        """Its figures that are more than the planner can add up. Those published before there was a bound may be."""
        for name in ("cost", "quality"):
            figure = getattr(self.form, name)
            if figure is not None and figure > MOST_WORTH:
                message = f"the {name} of the module {quoted(self.name)} is {figure:g}, more than {MOST_WORTH:,}"
                yield problem_at("wrong-value", message, "publish it with less, in larger units if need be", name)

    def config(self, rest: Mapping[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
        """The config of a task of it, where a place gives what the module leaves open; with the kinds of its types."""
        if self.form.code is None:
            return {**rest, **({} if self.form.installed is None else self.form.installed.config)}
        code = self.form.code
        return {
            "digest": source_digest(code),
            "entry": code.entry,
            "per": code.per,
            "owner": self.owner,
            **({"connects": targets_of(code)} if code.connects else {}),
            **({"wheels": list(self.wheels)} if self.wheels else {}),
            **({} if code.state is None else self._kept(code.state, rest)),
            "input": {"in": {name: kinds.get(kind, kind) for name, kind in code.input.items()}},
            "output": {
                "fields": {name: kinds.get(kind, kind) for name, kind in code.output.fields.items()},
                "drop": list(code.output.drop),
                "rest": code.output.rest,
            },
        }

    def _kept(self, state: StateForm, rest: Mapping[str, Any]) -> dict[str, Any]:
        return {"module": self.form.name, **state.model_dump(), "config": {**state.config, **rest}}


def read_module(raw: bytes | str, catalogue: Catalogue | None = None) -> Module:
    """The module in a JSON text. Raises `InvalidDocument` with every problem.

    With a catalogue, its task type must be there. What was published before is read without one.
    """
    form = read_form(raw, ModuleForm)
    domains, problems = read_domains(form.variables, {})
    constraints = ConstraintReader(domains)
    module = Module(
        form=form,
        require=constraints.read(form.require, "require"),
        ensure=constraints.read(form.ensure, "ensure"),
        domains=domains,
    )
    problems = [*problems, *constraints.problems, *_wrong(form, catalogue)]
    if catalogue is not None:
        problems += module.excesses()
    if catalogue is not None and not problems:
        problems = list(_wrong_config(module, catalogue))
    if problems:
        raise InvalidDocument(problems)
    return module


def type_of(form: ModuleForm) -> str:
    """The task type of its tasks."""
    if form.installed is not None:
        return form.installed.type
    if form.code is not None and form.code.state is not None:
        return _STATEFUL_TYPE
    return _CONNECTING_TYPE if form.code is not None and form.code.connects else _CODE_TYPE


def targets_of(code: CodeForm) -> list[str]:
    """What sound code connects to, each in its one spelling."""
    return sorted({target(text) for text in code.connects})


def source_digest(code: CodeForm) -> str:
    """The digest of a source, by which workers know it."""
    return sha256(code.source.encode()).hexdigest()


def read_domains(
    forms: Domains, known: Mapping[str, frozenset[str]]
) -> tuple[Mapping[str, frozenset[str]], list[Problem]]:
    """The values of declared variables, beside known ones; and what is wrong with them."""
    problems = []
    domains = dict(known)
    for name, values in forms.items():
        if name in JOINING:
            message = f"a variable cannot be called {quoted(name)}, which joins constraints"
            problems.append(problem_at("wrong-value", message, "rename it", "variables", name))
        texts = [value_text(value) or UNSET for value in values]
        if len(set(texts)) < len(texts):
            message = f"a value of {quoted(name)} is there twice"
            problems.append(problem_at("wrong-value", message, "leave one of them out", "variables", name))
        domains[name] = domains.get(name, frozenset()) | frozenset({UNSET, *texts})
    return domains, problems


def _wrong(form: ModuleForm, catalogue: Catalogue | None) -> Iterator[Problem]:
    if (form.installed is None) == (form.code is None):
        message, remedy = "a module is either an installed task type or code", "give one of 'installed' and 'code'"
        yield problem_at("no-implementation" if form.code is None else "two-implementations", message, remedy)
    if form.installed is not None and catalogue is not None and catalogue.find(form.installed.type) is None:
        known = catalogue.names()
        message = f"unknown task type {quoted(form.installed.type)}"
        remedy = suggestion(form.installed.type, known, f"the known types are {listed(known)}")
        yield problem_at("unknown-type", message, remedy, "installed", "type")
    if form.installed is not None and form.installed.type in TYPES_OF_CODE:
        # Its config would say by itself whose code it is, and that an operator vouches for it.
        message = f"the type {quoted(form.installed.type)} is for modules that are code"
        yield problem_at("wrong-value", message, "give the source in 'code'", "installed", "type")
    if form.code is not None:
        yield from _wrong_code(form.shape, form.code)


def _wrong_config(module: Module, catalogue: Catalogue) -> Iterator[Problem]:
    kind = catalogue.find(module.type)
    if module.form.installed is not None and kind is not None:
        yield from installed_problems(module.form.installed.config, kind)
    elif module.form.code is not None and kind is not None:
        # What the kinds are makes no difference.
        first = {name: min(kinds_of(name, module.form.code)) for name in module.form.code.types}
        yield from code_problems(module.config({}, first), kind)


def _wrong_shape(shape: ModuleShape, code: CodeForm) -> Iterator[Problem]:
    remembers = code.state is not None
    if shape is ModuleShape.JOIN or not (remembers or shape.allows_no_op):
        why = "takes the events of one stream" if remembers else "without 'state' keeps nothing from event to event"
        other = "another one" if remembers else "one-to-one, pair-to-pair or filter"
        remedy = f"use an installed task type for this shape, or choose {other}"
        yield problem_at("wrong-shape", f"code {why}, so it cannot be {shape}", remedy, "shape")


def _wrong_code(shape: ModuleShape, code: CodeForm) -> Iterator[Problem]:
    yield from _wrong_shape(shape, code)
    if len(code.source.encode()) > MOST_SOURCE:
        yield problem_at("too-long", f"the source has more than {MOST_SOURCE:,} bytes", "shorten it", "code", "source")
    if code.state is not None and code.connects:
        message, remedy = "code that keeps state connects to nothing", "leave out one of 'state' and 'connects'"
        yield problem_at("connects-with-state", message, remedy, "code", "connects")
    yield from _wrong_requirements(code)
    for name in code.types:
        try:
            kinds_of(name, code)
        except ValueError:
            message, remedy = f"the type variable {quoted(name)} is defined by itself", "list the kinds that it may be"
            yield problem_at("recursive-type-variable", message, remedy, "code", "types", name)
        except KeyError as unknown:
            yield _unknown_kind(("code", "types", name), str(unknown.args[0]), code)
    for place, kinds in ((("code", "input"), code.input), (("code", "output", "fields"), code.output.fields)):
        for name, kind in kinds.items():
            if kind not in set(Kind) and kind not in code.types:
                yield _unknown_kind((*place, name), kind, code)


def _wrong_requirements(code: CodeForm) -> Iterator[Problem]:
    seen = set()
    for at, text in enumerate(code.requirements):
        place = ("code", "requirements", at)
        try:
            name, _ = pinned(text)
        except ValueError:
            message = f"{quoted(text)} is no package that is pinned to a version"
            yield problem_at("not-pinned", message, "write it as in tiny==1.0", *place)
            continue
        if name in seen:
            yield problem_at("required-twice", f"{quoted(name)} is required twice", "leave one of them out", *place)
        seen.add(name)
    for at, text in enumerate(code.connects):
        try:
            target(text)
        except ValueError:
            message, remedy = f"{quoted(text)} is no host with a port", "write it as in example.org:443"
            yield problem_at("not-a-target", message, remedy, "code", "connects", at)


def _unknown_kind(place: tuple[str, ...], name: str, code: CodeForm) -> Problem:
    known = [*Kind, *code.types]
    remedy = suggestion(name, known, f"the known ones are {listed(known)}")
    return problem_at("unknown-kind", f"{quoted(name)} is neither a kind nor a type variable", remedy, *place)
