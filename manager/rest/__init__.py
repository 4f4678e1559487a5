"""REST: the service over HTTP, under `/v1`. Begin with `make_app`.

`routes` and `streams` have a router for each family of use cases. The modules here are what all routes share.
"""

from manager.rest.app import make_app

__all__ = ["make_app"]
