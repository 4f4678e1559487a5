"""REST: the service over HTTP, under `/v1`.

Each family of use cases has a router; what all share (who asks, bodies, problems, what OpenAPI says) has a module each.
Begin with `make_app`.
"""

from manager.rest.app import make_app
from manager.rest.streams.live_events import Events

__all__ = ["Events", "make_app"]
