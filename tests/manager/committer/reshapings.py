"""Random edits of documents in which tasks come and go between others, and change."""

from copy import deepcopy
from random import Random
from typing import Any

PLAIN = ("map", "count", "echo")
"""Types with one input port and one output port, of which any may stand between any two tasks."""


def reshaped(document: dict[str, Any], draw: Random) -> dict[str, Any]:
    """The document after some insertions, removals and changes of configs; maybe as it was."""
    found = deepcopy(document)
    for _ in range(draw.randint(1, 3)):
        draw.choice([_inserted, _inserted, _removed, _changed])(found, draw)
    return found


def _inserted(document: dict[str, Any], draw: Random) -> None:
    """Insert a task before some or all of those that one stream feeds."""
    if not document["streams"]:
        return
    chosen = draw.choice(document["streams"])
    leaving = [each for each in document["streams"] if _origin(each) == _origin(chosen)]
    taken = draw.sample(leaving, draw.randint(1, len(leaving)))
    name = f"x{draw.randrange(10**6)}"
    kind = draw.choice(PLAIN)
    config = {} if kind == "count" else {"add": draw.randrange(3)}
    document["tasks"].append({"id": name, "type": kind, "config": config})
    document["streams"].append({**_origin(chosen), "to": name})
    for each in taken:
        document["streams"].remove(each)
        document["streams"].append({"from": name, **{key: each[key] for key in ("to", "to_port") if key in each}})


def _removed(document: dict[str, Any], draw: Random) -> None:
    """Take a task out between those that feed it and those that it feeds."""
    streams = document["streams"]
    gone = [
        each["id"]
        for each in document["tasks"]
        if each["type"] in PLAIN and any(stream["from"] == each["id"] for stream in streams)
    ]
    if not gone:
        return
    name = draw.choice(gone)
    entering = [each for each in streams if each["to"] == name]
    leaving = [each for each in streams if each["from"] == name]
    document["tasks"] = [each for each in document["tasks"] if each["id"] != name]
    left = [each for each in streams if each not in entering and each not in leaving]
    for above in entering:
        for below in leaving:
            joined = {**_origin(above), **{key: below[key] for key in ("to", "to_port") if key in below}}
            if joined not in left:
                left.append(joined)
    document["streams"] = left


def _changed(document: dict[str, Any], draw: Random) -> None:
    """Change a config."""
    if maps := [each for each in document["tasks"] if each["type"] == "map"]:
        draw.choice(maps)["config"] = {"add": draw.randrange(3)}


def _origin(stream: dict[str, Any]) -> dict[str, Any]:
    return {key: stream[key] for key in ("from", "from_port") if key in stream}
