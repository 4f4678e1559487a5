"""Pass: find the registered source that each source task names."""

from dataclasses import replace

from dags.canonical.configs import canonical_json
from dags.canonical.draft import Draft
from dags.problems import Problem, listed, pointer, quoted, suggestion
from dags.source import Source
from dags.task_type import NamesSource


def find_sources(draft: Draft) -> Draft:
    """Give every source task its registered source. One that the tenant may not read answers as if there were none.

    >>> named = find_sources(fill_configs(find_types(draft("s:source{'source': 'wether'} > k:sink"))))
    >>> named.problems[0].message, named.problems[0].remedy
    ("unknown source 'wether'", "did you mean 'weather'?")
    """
    readable = {name: source for name, source in draft.sources.items() if source.visible_to(draft.tenant)}
    registered: list[Source | None] = []
    texts = list(draft.config_texts)
    problems: list[Problem] = []
    for i, (kind, config) in enumerate(zip(draft.types, draft.configs, strict=True)):
        found = None
        if kind is not None and kind.is_source and isinstance(config, NamesSource):
            found = readable.get(config.source)
            if found is None:
                problems.append(
                    Problem(
                        pointer=pointer("tasks", i, "config", "source"),
                        code="unknown-source",
                        message=f"unknown source {quoted(config.source)}",
                        remedy=suggestion(config.source, readable, f"you may use {listed(sorted(readable))}"),
                    )
                )
            else:
                # Tenants may know the same source by different names; what counts is how it is registered.
                same = config.model_copy(update={"source": found.name})
                texts[i] = canonical_json(same, draft.tenant)
        registered.append(found)
    return replace(
        draft, registered=tuple(registered), config_texts=tuple(texts), problems=(*draft.problems, *problems)
    )
