"""The requests about modules: publish, list, show, deprecate, vouch."""

from manager.answers import ModuleAnswer, ModuleDetail, Page
from manager.client.requests.request import Document, Request, document_body, given, list_request, path_to
from planning.shape import ModuleShape


def publish_module(form: Document) -> Request[ModuleDetail]:
    """Publish a version of a module."""
    return Request(method="POST", path="/v1/modules", answer=ModuleDetail, body=document_body(form))


def modules(
    *, tenant: str | None, name: str | None, shape: ModuleShape | None, tag: str | None, deprecated: bool | None
) -> Request[Page[ModuleAnswer]]:
    """The versions of modules that the caller may use."""
    wanted = None if deprecated is None else str(deprecated).lower()
    query = given(tenant=tenant, name=name, shape=shape, tag=tag, deprecated=wanted)
    return list_request("/v1/modules", Page[ModuleAnswer], query)


def module_versions(name: str, tenant: str | None) -> Request[Page[ModuleAnswer]]:
    """The versions of one module."""
    return list_request(path_to("modules", name), Page[ModuleAnswer], given(tenant=tenant))


def module(name: str, version: int, tenant: str | None) -> Request[ModuleDetail]:
    """One version of a module."""
    return Request(path=path_to("modules", name, str(version)), answer=ModuleDetail, query=given(tenant=tenant))


def deprecate_module(name: str, version: int, tenant: str | None) -> Request[ModuleAnswer]:
    """Deprecate a version."""
    path = path_to("modules", name, str(version), "deprecate")
    return Request(method="POST", path=path, answer=ModuleAnswer, query=given(tenant=tenant))


def vouch_for_module(name: str, version: int, tenant: str) -> Request[ModuleAnswer]:
    """Vouch for a version."""
    path = path_to("modules", name, str(version), "vouch")
    return Request(method="POST", path=path, answer=ModuleAnswer, query=given(tenant=tenant))


def withdraw_vouch(name: str, version: int, tenant: str) -> Request[ModuleAnswer]:
    """Vouch for a version no longer."""
    path = path_to("modules", name, str(version), "vouch")
    return Request(method="DELETE", path=path, answer=ModuleAnswer, query=given(tenant=tenant))
