"""The topic of a source: plain, or with wildcards, of which some become fields of the events.

`+` stands for any one level, a last `#` for all further levels or none. `{name}` stands for any one level too, which
becomes the string field `name` of each event. On Braid's own broker the first level is plain, because it says whose a
topic is, and keeps every filter away from Braid's own topics. On another broker it may be a wildcard like any other.

`bridge.source_topics` makes fields of the levels.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from dags.schema import Schema

_NAMED = re.compile(r"\{([^{}+#]+)\}")
_REST = "_rest"
"""The column that events have beside their fields; see `bridge.raw_events`."""
_LONGEST = 65_535
"""Bytes of a filter."""
_DEEPEST = 200
"""Slashes in a filter; brokers take no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic:
    """The topic of a source; made by `source_topic`."""

    filter: str
    """The MQTT topic filter that is subscribed to; a plain topic is its own."""
    fields: Mapping[str, int] = field(default_factory=dict)
    """The fields that are made of levels, with the number of the level."""

    @property
    def is_plain(self) -> bool:
        """True if only one topic is meant."""
        return not is_wild(self.filter)

    def own_fields(self, schema: Schema) -> Schema:
        """The fields of a schema that the messages themselves have."""
        return Schema.of({name: kind for name, kind in schema.fields.items() if name not in self.fields})


@lru_cache(maxsize=10_000)
def source_topic(text: str, *, outside: bool = False) -> SourceTopic:
    """The topic of a source as its owner writes it; `outside` says that it is one of another broker.

    >>> source_topic("plant/{machine}/temperature")
    SourceTopic(filter='plant/+/temperature', fields=mappingproxy({'machine': 1}))
    >>> source_topic("plant/street").is_plain
    True
    >>> source_topic("{site}/temperature", outside=True)
    SourceTopic(filter='+/temperature', fields=mappingproxy({'site': 0}))
    """
    levels = text.split("/")
    names = {at: name for at, level in enumerate(levels) if (at or outside) and (name := _name_in(level))}
    return SourceTopic(
        filter="/".join("+" if at in names else level for at, level in enumerate(levels)),
        fields=MappingProxyType({name: at for at, name in names.items()}),
    )


def why_no_source_topic(text: str, *, outside: bool = False) -> str:
    """Why a source cannot have a topic, as far as wildcards go; empty if it can.

    >>> [why_no_source_topic(text) for text in ("a/+/b", "a/{b}/c", "a/b/#")]
    ['', '', '']
    >>> why_no_source_topic("{site}/temperature")
    'begins with a wildcard; write the first level out, because it says whose the topic is'
    >>> why_no_source_topic("{site}/temperature", outside=True)
    ''
    >>> why_no_source_topic("a/{b}/{b}")
    'names the field b twice; a field is made of one level'
    """
    first, *rest = text.split("/")
    if not outside and set("+#{}") & set(first):
        return "begins with a wildcard; write the first level out, because it says whose the topic is"
    levels = [first, *rest] if outside else rest
    names = Counter(name for level in levels if (name := _name_in(level)))
    if twice := [name for name, times in names.items() if times > 1]:
        return f"names the field {twice[0]} twice; a field is made of one level"
    if any(set("{}") & set(level) for level in levels if not _name_in(level)):
        return "has braces within a level; they stand around the name of a whole level, as in plant/{machine}"
    if _REST in names:
        return f"names the field {_REST}, which is Braid's own; choose another name"
    if (outside or is_wild(text)) and (reason := _why_no_filter(source_topic(text, outside=outside).filter)):
        return f"is no topic filter: {reason}"
    return ""


def is_wild(topic: str) -> bool:
    """Whether a topic filter has wildcards."""
    return "+" in topic or "#" in topic


def overlap(one: str, other: str) -> bool:
    """Whether there is a topic that both filters match, if their first levels are plain, or one of them is a topic.

    >>> [overlap("a/+/c", other) for other in ("a/b/c", "a/b/+", "a/#", "a/b", "a/b/d")]
    [True, True, True, False, False]
    >>> overlap("a/#", "a"), overlap("a/+/#", "a/b"), overlap("a/+/#", "a")
    (True, True, False)
    """
    ours, theirs = one.split("/"), other.split("/")
    for level, opposite in zip(ours, theirs, strict=False):
        if "#" in {level, opposite}:
            return True
        if level != opposite and "+" not in {level, opposite}:
            return False
    # A last # stands for no level, too.
    return (ours[len(theirs) :] or theirs[len(ours) :]) in ([], ["#"])


def _name_in(level: str) -> str:
    """The field that a level becomes; empty if it becomes none."""
    named = _NAMED.fullmatch(level)
    return "" if named is None else named[1]


def _why_no_filter(topic_filter: str) -> str:
    """Why no broker takes a filter; empty if they do. The embedded broker has the same rules, and knows no Braid."""
    levels = topic_filter.split("/")
    for number, level in enumerate(levels):
        if is_wild(level) and len(level) > 1:
            return "a wildcard is alone in its level"
        if level == "#" and number < len(levels) - 1:
            return "# comes last"
    if not topic_filter:
        return "it is empty"
    if "\0" in topic_filter or len(topic_filter.encode()) > _LONGEST:
        return "it is too long, or holds a zero"
    return "it has too many levels" if len(levels) > _DEEPEST + 1 else ""
