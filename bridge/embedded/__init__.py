"""The embedded broker: MQTT 5 and 3.1.1 in a process of its own, for machines without another one.

It keeps users, access lists, sessions, and what is retained; `bridge.brokers.broker` starts it where mosquitto is missing. Its
modules import each other by relative names and nothing else of Braid, because its process loads this package alone.
"""

from .passwords import hashed, is_hash

__all__ = ["hashed", "is_hash"]
