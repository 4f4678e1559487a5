"""A published function, tried on events as in a job, and wheels that tests build."""

import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from dags import Kind, Schema
from engine.code.store import CodeStore, Voucher, VoucherFile, digest_of
from engine.kernel.task_run import TaskOutcome
from engine.outside import HostOutside
from engine.trial import Trial

WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {pure}\n{tags}"


def wheel(  # noqa: PLR0913 - each is a part of it that a test sets
    name: str = "tiny",
    version: str = "1.0",
    files: Mapping[str, str | bytes] | None = None,
    *,
    requires: tuple[str, ...] = (),
    tags: tuple[str, ...] = ("py3-none-any",),
    pure: bool = True,
    more: str = "",
    folder: str = "",
) -> bytes:
    """A wheel with some files; by default it has one module of its name, with its version."""
    made = BytesIO()
    info = folder or f"{name.replace('-', '_')}-{version}.dist-info"
    lines = "".join(f"Requires-Dist: {each}\n" for each in requires)
    contents = {
        **({f"{name.replace('-', '_')}.py": f"VERSION = {version!r}\n"} if files is None else files),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}{more}\nDescription.\n",
        f"{info}/WHEEL": WHEEL.format(pure=str(pure).lower(), tags="".join(f"Tag: {each}\n" for each in tags)),
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in contents.items():
            # With a fixed time, so that equal wheels are equal.
            archive.writestr(zipfile.ZipInfo(path), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


OWNER = "ann"
NUMBER = {"n": "integer"}


class Publication(NamedTuple):
    """A source, and how it is called."""

    text: str
    fields: Mapping[str, str] = {"m": "integer"}
    needed: Mapping[str, str] = NUMBER
    per: str = "event"
    vouched: bool = False
    output: Mapping[str, Any] = {}
    entry: str = "entry"
    wheels: tuple[str, ...] = ()
    keeps: Mapping[str, Any] | None = None
    """What its config says of what it keeps, if it keeps something."""

    @property
    def type(self) -> str:
        """The type of its task."""
        return "code" if self.keeps is None else "stateful_code"

    def config(self) -> dict[str, Any]:
        """The config of its task."""
        return {
            "digest": digest_of(self.text),
            "entry": self.entry,
            "per": self.per,
            "input": {"in": dict(self.needed)},
            "output": {"fields": dict(self.fields), **self.output},
            "owner": OWNER,
            "wheels": list(self.wheels),
            **({} if self.keeps is None else {"module": "counting", **self.keeps}),
        }

    def trial(self, root: Path, schema: Schema | None = None) -> Trial:
        """A task that runs it."""
        CodeStore(root).put(digest_of(self.text), self.text)
        self.vouch(root, vouched=self.vouched)
        schema = schema or Schema.of({name: Kind(kind) for name, kind in self.needed.items()})
        return Trial(self.type, self.config(), {"in": schema}, HostOutside(root))

    def vouch(self, root: Path, *, vouched: bool) -> None:
        """Have an operator vouch for it alone, or for nothing."""
        voucher = Voucher(owner=OWNER, digest=digest_of(self.text), entry=self.entry, per=self.per)
        VoucherFile(root).keep([voucher] if vouched else [])

    def run(self, root: Path, events: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
        """What it gives for events, and the reasons for which events are parked, one for each."""
        return result(self.trial(root).take([("in", each) for each in events]))


def result(outcome: TaskOutcome) -> tuple[list[dict[str, Any]], list[str]]:
    """What leaves, and the reasons for which events are parked, one for each."""
    reasons = [each.reason for each in outcome.dead for _ in range(each.events.num_rows)]
    return outcome.emitted["out"].rows.to_pylist(), reasons


def numbers(count: int) -> list[dict[str, Any]]:
    """So many events."""
    return [{"n": n} for n in range(count)]
