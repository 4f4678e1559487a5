"""The embedded broker: MQTT 5 and 3.1.1 in a process of its own, for machines without mosquitto.

It keeps users, access lists, sessions and retained messages. `bridge.brokers.broker` starts it where mosquitto is
missing; where it is not, the module `relay`, a process too, lets tenants into mosquitto. Both processes load this
package alone, so its modules use relative imports and import nothing else of Braid.
"""

from .packets import VERSION
from .passwords import hashed, is_hash

__all__ = ["VERSION", "hashed", "is_hash"]
