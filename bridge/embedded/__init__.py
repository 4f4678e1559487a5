"""The embedded broker: MQTT 5 and 3.1.1 in a process of its own, for machines without mosquitto.

It keeps users, access lists, sessions and retained messages. `bridge.broker` starts it where mosquitto is
missing; where it is not, the module `relay`, a process too, lets tenants into mosquitto. Both processes load this
package alone, so its modules use relative imports and import nothing else of Braid.
"""

from .access import hashed, is_hash
from .packets import VERSION

__all__ = ["VERSION", "hashed", "is_hash"]
