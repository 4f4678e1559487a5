"""REST: the service over HTTP, under `/v1`. Begin with `make_app`.

Each room of the manager has its `routes`. The modules here are what all routes share.
"""

from manager.rest.app import make_app

__all__ = ["make_app"]
