"""The embedded broker: MQTT 5 and 3.1.1 in a process of its own, for machines without another one.

It keeps users, access lists, sessions, and what is retained; `python -m broker` runs it. It knows nothing of Braid and
loads little, so that its process is small; `bridge.broker` starts it where mosquitto is not installed.
"""

from broker.passwords import hashed, is_hash

__all__ = ["hashed", "is_hash"]
