"""The tenants' access to the broker: the topics that each may read and write, and its credentials.

`grant` makes the permissions, `access_list` and `password_list` write them for brokers, and `AccessKeeper` keeps both
as files beside a running broker, which reads them again after each change.
"""

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
    "password_list",
    "user_of",
]
