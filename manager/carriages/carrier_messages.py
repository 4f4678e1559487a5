"""The messages that tell machines who carries a host, and where its copies go."""

import json
from collections.abc import Mapping

from manager.observations.machine_messages import MachineStatus
from ring.carriage import Carriage


def written_carrier(carriage: Carriage, machines: Mapping[str, MachineStatus]) -> bytes:
    """The message on a committed carriage, with the addresses and secrets of the peers as they were last reported."""
    content = {
        "host": carriage.host,
        "machine": carriage.machine,
        "term": carriage.term,
        "version": carriage.version,
        "root": carriage.root,
        "heir": carriage.heir,
        "peers": [_peer(name, machines.get(name)) for name in carriage.peers],
        "kept_by": sorted(carriage.kept_by),
    }
    return json.dumps(content).encode()


def _peer(name: str, status: MachineStatus | None) -> dict[str, str]:
    at, secret = ("", "") if status is None else (status.seen.at, status.secret)
    return {"machine": name, "at": at, "secret": secret}


def read_standing(message: bytes) -> tuple[int, int]:
    """The term and version of the carriage in a message; (0, 0) if it cannot be read."""
    try:
        content = json.loads(message)
        return int(content["term"]), int(content["version"])
    except (ValueError, TypeError, KeyError):
        return 0, 0
