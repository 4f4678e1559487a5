"""The entrance of a broker: its listener for tenants, and the files with their passwords and rights."""

import resource
from dataclasses import dataclass
from pathlib import Path

PASSWORDS = "passwords"
"""The file with a broker's users and the hashes of their passwords."""
ACCESS_LIST = "acl"
"""The file with the topics that each user may read and write."""

_MOST_CONNECTIONS = 10_000


def most_connections() -> int:
    """The most connections of tenants: never so many that Braid's own clients find no room.

    A relay has two descriptors for each.
    """
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _MOST_CONNECTIONS if allowed == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, allowed // 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """A listener for users whose rights are in an access list; made by the starter of a broker.

    For mosquitto a relay listens (`bridge.embedded.relay`); the embedded broker does so itself.

    Braid's own users have another listener, without a list. Once it has started again, mosquitto has no rights for the
    users of a listener with a list whose sessions it restored from its store, until they connect again: it would drop
    messages for a host that is away.
    """

    folder: Path
    """The folder of the files `passwords` and `acl`, which its owner writes. A reload reads them again."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 stands for a free one."""
