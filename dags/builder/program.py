"""Programs: the beginning of streams, the policy, and the document that all steps make."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dags.builder.alternates import BuiltRule
from dags.builder.conditions import BuildError, events_in, known_among, present
from dags.builder.draft import BuiltTask, Origin, ProgramDraft, stem_of, type_and_config
from dags.builder.streams import BuiltOutput, BuiltStream
from dags.config import Config
from dags.task_type import AnyTaskType


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherOutput:
    """An output of another dataflow of the tenant's, whose events a policy names."""

    dataflow: str
    output: str


class Program:
    """A dataflow that is written step by step.

    >>> program = Program("warm streets")
    >>> _ = program.stream("city:street").filter("temperature > 30").output("warm")
    >>> [task["id"] for task in program.document()["tasks"]]
    ['street', 'where', 'warm']
    """

    def __init__(self, name: str) -> None:
        self._draft = ProgramDraft(name=name)
        self._policy: dict[str, Any] | None = None
        self._rules: tuple[BuiltRule, ...] = ()
        self._events: Mapping[str, BuiltOutput | OtherOutput] = {}

    def stream(self, source: str, *, name: str | None = None) -> BuiltStream:
        """The events of a registered source."""
        return self._begin(source, {"type": "source", "config": {"source": source}}, name)

    def generate(
        self,
        type: AnyTaskType | str,  # noqa: A002 - what documents call it
        config: Mapping[str, object] | Config | None = None,
        *,
        name: str | None = None,
    ) -> BuiltStream:
        """The events that a task of a type without inputs makes."""
        form = type_and_config(self._draft.step("generate", name), type, config or {})
        return self._begin(form["type"], form, name)

    def policy(  # noqa: PLR0913 - a policy has as many parts, all with defaults
        self,
        *,
        throughput: float | None = None,
        tolerance: float | None = None,
        latency: float | None = None,
        cores: float | None = None,
        worth: float | None = None,
        budget: float | None = None,
        events: Mapping[str, BuiltOutput | OtherOutput] | None = None,
        rules: Sequence[BuiltRule] = (),
    ) -> None:
        """What to keep while the dataflow runs: a part of the events' rate, seconds, cores, money, and rules."""
        step = "the policy"
        if self._policy is not None:
            raise BuildError(step, "the program has one already", "say all of it in one call")
        names = [rule.name for rule in rules]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise BuildError(step, f"two rules are named {repeated[0]!r}", "give each rule a name of its own")
        self._events = dict(events or {})
        for name, output in self._events.items():
            if isinstance(output, BuiltOutput) and output.draft is not self._draft:
                remedy = "name it as an OtherOutput with its dataflow"
                raise BuildError(step, f"the event {name!r} is an output of another program", remedy)
        self._policy = present(
            {
                "throughput": throughput,
                "tolerance": tolerance,
                "latency": latency,
                "cores": cores,
                "worth": worth,
                "budget": budget,
            }
        )
        self._rules = tuple(rules)

    def document(self) -> dict[str, Any]:
        """The document. Raises `BuildError` at a step that is unfinished or names what is not there."""
        made = self._draft.document()
        used = list(self._draft.events())
        for rule in self._rules:
            used += [(name, f"the rule {rule.name!r}") for name in events_in(rule.when.form)]
        for name, step in used:
            known_among(step, "event", name, self._events)
        if self._policy is None:
            return made
        ids = self._draft.ids()
        policy = dict(self._policy)
        if self._events:
            policy["events"] = {
                name: {"output": ids[output.task]} if isinstance(output, BuiltOutput) else asdict(output)
                for name, output in sorted(self._events.items())
            }
        if self._rules:
            policy["rules"] = [self._rule_form(rule, ids) for rule in self._rules]
        return {**made, "policy": policy}

    def text(self) -> str:
        """The document as JSON. Equal programs give equal texts."""
        return json.dumps(self.document(), indent=2, ensure_ascii=False) + "\n"

    def _begin(self, stem: str, form: Mapping[str, Any], name: str | None) -> BuiltStream:
        task = BuiltTask(operator="stream", stem=stem_of(stem), name=name, form=form, entrances=())
        return BuiltStream(draft=self._draft, origins=(Origin(self._draft.add(task), None),))

    def _rule_form(self, rule: BuiltRule, ids: Sequence[str]) -> dict[str, Any]:
        chosen: dict[str, str | bool] = {}
        for stream, choice in rule.choose.items():
            step = f"the rule {rule.name!r}"
            if not isinstance(stream, BuiltStream) or stream.draft is not self._draft:
                raise BuildError(step, f"it chooses for {stream!r}", "give a stream of this program")
            if isinstance(choice, str):
                alternates = self._draft.tasks[stream.task].form.get("alternates", ())
                known_among(step, "alternate", choice, (alternate["name"] for alternate in alternates))
                chosen[ids[stream.task]] = choice
            else:
                chosen |= dict.fromkeys(self._paths(step, stream, ids), choice)
        return {"name": rule.name, **self._draft.resolved(rule.when.form, ids), "choose": chosen}

    def _paths(self, step: str, stream: BuiltStream, ids: Sequence[str]) -> list[str]:
        """The names of the guarded paths that a stream takes."""
        every = [
            (origin, number, port)
            for number, task in enumerate(self._draft.tasks)
            for origin, port in task.entrances
            if origin.when is not None
        ]
        between = Counter((origin.task, number) for origin, number, _ in every)
        names: list[str] = []
        for origin, number, port in every:
            if origin in stream.origins:
                begin, end = ids[origin.task], ids[number]
                if between[origin.task, number] > 1:
                    # Two paths between the same tasks differ by their ports.
                    begin, end = f"{begin}.{origin.port or 'out'}", f"{end}.{port or 'in'}"
                names.append(f"{begin}>{end}")
        if not names:
            raise BuildError(step, "it opens or closes a stream without a guard", "give the stream that 'when' returns")
        return names
