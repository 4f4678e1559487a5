"""Who may read and write what on the broker: access lists and credentials, made from tenants and sources.

`grant` says what each tenant may, `access_list` writes it as brokers read it, and `hashed` makes a password's hash.
`AccessKeeper` keeps both in files beside a running broker, and has it read them again.
"""

from bridge.embedded import hashed
from manager.access.grants import OWN_USER, Grant, OwnedTopic, UnfitName, access_list, grant, user_of
from manager.access.keeper import AccessKeeper
from manager.access.passwords import password_list

__all__ = [
    "OWN_USER",
    "AccessKeeper",
    "Grant",
    "OwnedTopic",
    "UnfitName",
    "access_list",
    "grant",
    "hashed",
    "password_list",
    "user_of",
]
