"""The requests about wheels: send, list, remove."""

from hashlib import sha256

from manager.answers import Page, WheelAnswer
from manager.client.requests.request import Request, given, list_request, path_to


def put_wheel(content: bytes) -> Request[WheelAnswer]:
    """Send a wheel."""
    return Request(
        method="PUT",
        path=path_to("wheels", sha256(content).hexdigest()),
        answer=WheelAnswer,
        headers={"Content-Type": "application/octet-stream"},
        body=content,
    )


def wheels(tenant: str | None) -> Request[Page[WheelAnswer]]:
    """The caller's wheels."""
    return list_request("/v1/wheels", Page[WheelAnswer], given(tenant=tenant))


def remove_wheel(digest: str, tenant: str | None) -> Request[WheelAnswer]:
    """Remove a wheel."""
    return Request(method="DELETE", path=path_to("wheels", digest), answer=WheelAnswer, query=given(tenant=tenant))
