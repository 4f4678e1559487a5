"""Where tenants come in at a broker, and the files that say who they are and what they may do."""

from dataclasses import dataclass
from pathlib import Path

PASSWORDS = "passwords"
"""The file with the users that a broker knows, and the hashes of their passwords."""
ACCESS_LIST = "acl"
"""The file with what each user may read and write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """Where users come in who may do only what an access list says; made by whoever starts a broker.

    It is a listener of its own, because mosquitto forgets at each reload what the users of a listener with an access
    list may do whose sessions it restored from its store, until they connect again: it would drop what comes meanwhile
    for a host that is away. Braid's own users have a listener without a list.
    """

    folder: Path
    """Has the files `passwords` and `acl`, which somebody else keeps; the broker reads them again at a reload."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 stands for a free one. Mosquitto knows by its port which listener a session is of."""
