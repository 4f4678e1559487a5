"""The resolver of dynamic documents: the plain document that runs, for what is chosen."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from adaptation.document_reader import ModuleOf, read_dynamic
from adaptation.documents import DynamicDocument, Selection, resolve
from dags import Dataflow, InvalidDocument
from manager.documents.canonical import modules_of
from manager.kernel.dataflow_rows import WrittenDocument, WrittenKind
from manager.pipelines.composer import tasks_in
from manager.problem import InvalidDataflow
from manager.use_case import Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A dynamic document, and the plain one that it begins with."""

    dynamic: DynamicDocument
    written: bytes

    @property
    def document(self) -> bytes:
        """The plain document."""
        return plain(self.dynamic, self.dynamic.first)

    @property
    def origin(self) -> WrittenDocument:
        """Return the dynamic document of which the plain one was made."""
        return WrittenDocument(kind=WrittenKind.DYNAMIC, written=self.written)


def plain(dynamic: DynamicDocument, chosen: Selection) -> bytes:
    """The plain document for what is chosen."""
    return json.dumps(resolve(dynamic, chosen), ensure_ascii=False).encode()


class Resolver:
    """Reads dynamic documents; any thread may ask it."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def resolved(self, tenant: str, raw: bytes, dataflow: str = "resolved") -> Resolved:
        """A dynamic document as it begins; refused with all of its problems."""
        with self._tools.committer.looking() as state:
            sources = state.sources

        def check(document: bytes) -> Dataflow:
            try:
                return self._tools.canonical(document, dataflow=dataflow, tenant=tenant, sources=sources)
            except InvalidDataflow as refused:
                raise InvalidDocument(refused.errors) from refused

        try:
            dynamic = read_dynamic(raw, module=self._modules(tenant, raw), canonical=check)
        except InvalidDocument as refused:
            raise InvalidDataflow(refused.problems) from refused
        return Resolved(dynamic=dynamic, written=raw)

    def read(self, tenant: str, dynamic: str) -> DynamicDocument:
        """A dynamic document that was accepted before."""
        raw = dynamic.encode()
        return read_dynamic(raw, module=self._modules(tenant, raw))

    def _modules(self, tenant: str, raw: bytes) -> ModuleOf:
        named = set(_modules_in(raw))
        if not named:
            return lambda _name, _config: None
        with self._tools.store.read() as session:
            modules = {module_row.name: module_row for module_row in modules_of(session, tenant, named)}

        def module(name: str, config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], Collection[str]] | None:
            made = modules.get(name)
            return None if made is None else (made.type, made.config(config, {}), made.form.host_tags)

        return module


def _modules_in(raw: bytes) -> Iterator[str]:
    """The modules that alternates name."""
    for task in tasks_in(raw):
        alternates = task.get("alternates")
        for alternate in alternates if isinstance(alternates, list) else ():
            if isinstance(alternate, dict) and isinstance(name := alternate.get("module"), str):
                yield name
