"""Blueprints: the tasks and places of a pipeline in order, with what enters and leaves each.

The structure of a document is checked by the passes for documents, with every place as a task of a type of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dags import AnyTaskType, Catalogue, Config, InvalidDocument, Ports, Problem, Source, TaskType
from dags.canonical import DRAFT_CHECKS, DraftDocument
from dags.canonical.draft import Wire
from dags.document import Reading, StreamForm, TaskForm
from dags.problems import listed, problem_at, quoted
from dags.vocabulary import ModuleShape
from planning.forms import END, EVERYWHERE, Choice, GapForm, PipelineForm, PointChoice, PointForm
from planning.problem import Inflow, Meeting, Outlet


class _Place(Config):
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


_PLACE: TaskType[_Place] = TaskType(
    name="point",
    config=_Place,
    ports=lambda config: Ports(inputs=config.inputs, outputs=config.outputs),
    output_schema=lambda config, inputs: {port: next(iter(inputs.values())) for port in config.outputs},
)
_CHECKS = DRAFT_CHECKS[:-1]
"""All but that of fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A task or an open place; each after those it reads from."""

    id: str
    at: int
    """Its position in the document. All spots of a gap have that of the gap."""
    inputs: tuple[Inflow, ...]
    outputs: tuple[str, ...]
    choice: Choice | None = None
    """What may fill it; None for a task."""
    task: TaskForm | None = None
    type: AnyTaskType | None = None
    config: Config | None = None
    text: bytes = b""
    """A task's whole config, as canonical JSON."""
    source: Source | None = None
    meeting: Meeting = Meeting.EQUAL

    @property
    def point(self) -> PointChoice | None:
        """Its point, if it is one."""
        return self.choice if isinstance(self.choice, PointChoice) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """The structure of a pipeline."""

    form: PipelineForm
    spots: tuple[Spot, ...]
    positions: Mapping[str, int] = field(default_factory=dict)
    """The position of each entry of the document, by its id."""

    def last(self, entry: str) -> str:
        """The spot whose output is that of an entry: the last of a gap, or the entry itself."""
        return next(spot.id for spot in reversed(self.spots) if spot.at == self.positions[entry])


def draw(
    form: PipelineForm, *, dataflow: str, tenant: str, catalogue: Catalogue, sources: Mapping[str, Source]
) -> Blueprint:
    """The blueprint of a form. Raises `InvalidDocument` with every problem of its structure."""
    draft = DraftDocument(
        dataflow=dataflow,
        tenant=tenant,
        reading=Reading(
            name=form.name,
            tasks=tuple(entry if isinstance(entry, TaskForm) else _placed(entry, form.streams) for entry in form.tasks),
            streams=form.streams,
        ),
        catalogue=replace(catalogue, types={**catalogue.types, _PLACE.name: _PLACE}),
        sources=sources,
    )
    for check in _CHECKS:
        draft = check(draft)
    positions = {entry.id: at for at, entry in enumerate(form.tasks)}
    problems = [
        *draft.problems,
        *_wrong_places(form, draft),
        *_unknown_ids(form, positions),
        *_idle_demands(form, draft, positions),
    ]
    if problems:
        raise InvalidDocument(problems)
    entering: list[list[Wire]] = [[] for _ in form.tasks]
    leaving: list[set[str]] = [set() for _ in form.tasks]
    for wire in draft.wires:
        entering[wire.to].append(wire)
        leaving[wire.origin].add(wire.from_port)
    last = {
        at: f"{entry.id}.{entry.gap.most}" if isinstance(entry, GapForm) else entry.id
        for at, entry in enumerate(form.tasks)
    }
    spots: list[Spot] = []
    for at in _in_order([entry.id for entry in form.tasks], entering):
        ports: dict[str, list[Outlet]] = {}
        for wire in entering[at]:
            ports.setdefault(wire.to_port, []).append(Outlet(last[wire.origin], wire.from_port))
        inputs = tuple(Inflow(port, tuple(sorted(streams))) for port, streams in sorted(ports.items()))
        spots += _spots(form, draft, at, inputs, tuple(sorted(leaving[at])))
    return Blueprint(form=form, spots=tuple(spots), positions=positions)


def _in_order(ids: Sequence[str], entering: Sequence[Sequence[Wire]]) -> list[int]:
    """The entries, each after those it reads from, in an order that does not depend on where they are listed.

    It follows each way down before the next begins, so that few streams are open between: planning sweeps through it.
    """
    order: dict[int, None] = {}
    waiting = sorted(range(len(ids)), key=ids.__getitem__, reverse=True)
    while waiting:
        above = {wire.origin for wire in entering[waiting[-1]]} - order.keys()
        if waiting[-1] in order or not above:
            order[waiting.pop()] = None
        else:
            waiting += sorted(above, key=ids.__getitem__, reverse=True)
    return list(order)


def _placed(entry: PointForm | GapForm, streams: Sequence[StreamForm]) -> TaskForm:
    """A place as a task, whose ports are those that streams name."""
    inputs = dict.fromkeys(stream.to_port or "in" for stream in streams if stream.to == entry.id)
    outputs = dict.fromkeys(stream.from_port or "out" for stream in streams if stream.origin == entry.id)
    ports = {"inputs": list(inputs) or ["in"], "outputs": list(outputs) or ["out"]}
    return TaskForm(id=entry.id, type=_PLACE.name, config=ports)


def _spots(
    form: PipelineForm, draft: DraftDocument, at: int, inputs: tuple[Inflow, ...], outputs: tuple[str, ...]
) -> list[Spot]:
    entry = form.tasks[at]
    meeting = form.meets.get(entry.id, Meeting.EQUAL)
    spot = Spot(id=entry.id, at=at, inputs=inputs, outputs=outputs, meeting=meeting)
    if isinstance(entry, TaskForm):
        kind, config, text = draft.types[at], draft.configs[at], draft.config_texts[at] or b""
        return [replace(spot, task=entry, type=kind, config=config, text=text, source=draft.registered[at])]
    if isinstance(entry, PointForm):
        return [replace(spot, choice=entry.point)]
    chain = []
    for number in range(1, entry.gap.most + 1):
        name = f"{entry.id}.{number}"
        chain.append(replace(spot, id=name, inputs=inputs, outputs=("out",), choice=entry.gap))
        inputs = (Inflow("in", (Outlet(name),)),)
    return chain


def _wrong_places(form: PipelineForm, draft: DraftDocument) -> Iterator[Problem]:
    ids = {entry.id for entry in form.tasks}
    for at, (entry, kind) in enumerate(zip(form.tasks, draft.types, strict=True)):
        if isinstance(entry, GapForm):
            if not entry.gap.shape.allows_no_op or (kind and (kind.inputs, kind.outputs) != (("in",), ("out",))):
                message = "a gap is filled by a chain, so it has one port on each side and a shape that allows nothing"
                shapes = listed(shape for shape in ModuleShape if shape.allows_no_op)
                yield problem_at("wrong-gap", message, f"choose one of {shapes}, without ports", "tasks", at, "gap")
            names = {f"{entry.id}.{number}" for number in range(1, entry.gap.most + 1)}
            if clash := sorted(names & ids):
                message = f"{quoted(clash[0])} is the id of a place in the gap"
                yield problem_at("repeated-id", message, "rename the task or the gap", "tasks", at, "id")


def _unknown_ids(form: PipelineForm, positions: Mapping[str, int]) -> Iterator[Problem]:
    """What the document names that it does not have."""
    points = {entry.id for entry in form.tasks if isinstance(entry, PointForm)}
    for at, entry in enumerate(form.tasks):
        same = entry.point.same if isinstance(entry, PointForm) else None
        if same is not None and same not in points - {entry.id}:
            message = f"no other point has the id {quoted(same)}"
            yield problem_at("unknown-task", message, "name another point", "tasks", at, "point", "same")
    named: list[tuple[tuple[str | int, ...], str]] = [(("meets", name), name) for name in form.meets]
    named += [(("given", name), name) for name in form.given]
    for at, goal in enumerate(form.goals):
        if goal.since is not None:
            named.append((("goals", at, "since"), goal.since))
        if goal.at is not None and goal.at not in {END, EVERYWHERE}:
            named.append((("goals", at, "at"), goal.at))
    for place, name in named:
        if name not in positions:
            message = f"no task has the id {quoted(name)}"
            yield problem_at("unknown-task", message, "correct the id, or add the task", *place)


def _idle_demands(form: PipelineForm, draft: DraftDocument, positions: Mapping[str, int]) -> Iterator[Problem]:
    """What the document says of streams that there are not, and of those that planning knows by itself."""
    kinds = {name: draft.types[at] for name, at in positions.items()} if draft.types else {}
    for at, goal in enumerate(form.goals):
        for word, name in (("since", goal.since), ("at", goal.at if goal.since is None else None)):
            kind = None if name is None else kinds.get(name)
            if name is not None and kind is not None and kind.is_sink:
                message = f"nothing leaves {quoted(name)}, so a goal there says nothing"
                remedy = f"name the task before it, or leave {quoted(word)} out: then the goal is for the end"
                yield problem_at("wrong-value", message, remedy, "goals", at, word)
    for name in form.given:
        kind = kinds.get(name)
        if kind is not None and not kind.is_source:
            message = f"{quoted(name)} is no source; what holds of its events follows from what enters it"
            remedy = "give it of the sources above, or require it by a goal or by 'ensure' of a point"
            yield problem_at("wrong-value", message, remedy, "given", name)
