"""The console's files: its page at `/`, the others below `/console`."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request, Response

from manager.problem import NotFound

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing from other origins, no inline code, and no text as markup."""
_HEADERS = {
    # Browsers revalidate each time, so that all files are of one release.
    "Cache-Control": "no-cache",
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    # For browsers that do not know frame-ancestors.
    "X-Frame-Options": "DENY",
}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file of the console; made by `_files`."""

    content: bytes
    media_type: str
    tag: str


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """The console's one page."""
    return _sent(request, "index.html")


@router.api_route("/console/{name:path}", methods=["GET", "HEAD"])
async def file(request: Request, name: str) -> Response:
    """Another file of the console."""
    return _sent(request, name)


def _sent(request: Request, name: str) -> Response:
    # Looked up in a fixed set, so that no name leads out of the folder.
    if (found := _files().get(name)) is None:
        raise NotFound("path", request.url.path)
    headers = _HEADERS | {"ETag": found.tag}
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if found.tag in known:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


@cache
def _files() -> Mapping[str, _File]:
    return dict(_found(files("manager.console"), ""))


def _found(folder: Traversable, path: str) -> Iterator[tuple[str, _File]]:
    for each in folder.iterdir():
        name = f"{path}{each.name}"
        if each.is_dir():
            yield from _found(each, f"{name}/")
        elif (media_type := _TYPES.get(name[name.rfind(".") :])) is not None:
            content = each.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            yield name, _File(content=content, media_type=media_type, tag=tag)
