"""Pass: find the registered source that each source task names."""

from collections.abc import Iterable
from dataclasses import replace

from dags.canonical.configs import canonical_json
from dags.canonical.draft import DraftDocument
from dags.config import NamesSource
from dags.problems import Problem, listed, pointer, quoted, suggestion
from dags.source import Source


def find_sources(draft: DraftDocument) -> DraftDocument:
    """Give every source task its registered source. A source that the tenant may not read counts as unknown.

    >>> named = find_sources(fill_configs(find_types(draft("s:source{'source': 'wether'} > k:sink"))))
    >>> named.problems[0].message, named.problems[0].remedy
    ("unknown source 'wether'", "did you mean 'weather'?")
    """
    registered: list[Source | None] = []
    texts = list(draft.config_texts)
    unknown: dict[int, str] = {}
    for i, (kind, config) in enumerate(zip(draft.types, draft.configs, strict=True)):
        found = None
        if kind is not None and kind.is_source and isinstance(config, NamesSource):
            named = draft.sources.get(config.source)
            if named is not None and named.visible_to(draft.tenant):
                found = named
                # Tenants may know a source by different names; the registered name counts.
                if found.name != config.source:
                    texts[i] = canonical_json(config.model_copy(update={"source": found.name}), draft.tenant)
            else:
                unknown[i] = config.source
        registered.append(found)
    problems = _unknown(draft, unknown) if unknown else ()
    return replace(
        draft, registered=tuple(registered), config_texts=tuple(texts), problems=(*draft.problems, *problems)
    )


def _unknown(draft: DraftDocument, named: dict[int, str]) -> Iterable[Problem]:
    readable = sorted(name for name, source in draft.sources.items() if source.visible_to(draft.tenant))
    otherwise = f"you may use {listed(readable)}"
    for task, name in named.items():
        yield Problem(
            pointer=pointer("tasks", task, "config", "source"),
            code="unknown-source",
            message=f"unknown source {quoted(name)}",
            remedy=suggestion(name, readable, otherwise),
        )
