"""The objects of one host in a store, by any file system that fsspec knows."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import fsspec
import msgspec

from bridge.files import Steps, make_folder, no_steps, write_whole

_MAGIC = b"braid store 1\n"
_LENGTH, _DIGEST = 8, 32
_FOOT = _LENGTH + _DIGEST + len(_MAGIC)
_REMOVED_AT_ONCE = 500
T = TypeVar("T")


class StoreAway(ConnectionError):
    """A store that does not answer, or does not allow what is asked of it."""


class StoreDamaged(ValueError):
    """An object that is missing, or is not what was written."""


class NoStore(ValueError):
    """A URL of no store."""


class StoreObjects:
    """The objects of one host; used by one thread."""

    def __init__(
        self, url: str, host: str, *, step: Steps = no_steps, on_answer: Callable[[], None] = lambda: None
    ) -> None:
        """`url` is that of a folder for all hosts. Raises NoStore.

        `step` is called around each change, and `on_answer` whenever the store has answered.
        """
        self.url = f"{url.rstrip('/')}/{quote(host, safe='')}"
        self._step = step
        self._on_answer = on_answer
        protocol = url.partition("://")[0]
        if not url.partition("://")[2]:
            raise NoStore(f"{url!r} is no URL of a store; give one such as s3://bucket/folder or file:///mnt/folder")
        try:
            # Others write too, so nothing that was listed is remembered.
            self._files: Any = fsspec.filesystem(protocol, use_listings_cache=False, skip_instance_cache=True)
            self._place = str(self._files._strip_protocol(self.url))  # noqa: SLF001 - fsspec has no other name for it
        except ImportError as error:
            raise NoStore(f"{url} needs a package: {error}; for s3:// it is braid[s3]") from error
        except ValueError as error:
            raise NoStore(f"{url} is no URL of a store: {error}") from error
        self._is_local = protocol in {"file", "local"}
        self.sent = 0
        """The bytes that were written."""

    def put(self, name: str, payload: bytes, head: msgspec.Struct | None = None) -> None:
        """Write an object, durably and as a whole; its head comes after its payload."""
        body = msgspec.msgpack.encode(head)
        whole = b"".join((payload, body, len(body).to_bytes(_LENGTH, "big"), sha256(payload + body).digest(), _MAGIC))
        path = f"{self._place}/{name}"
        self._step(f"put {name}")
        try:
            with self._answering():
                if self._is_local:
                    make_folder(Path(path).parent)
                    write_whole(Path(path), whole)
                else:
                    self._files.pipe_file(path, whole)
        except FileNotFoundError as error:
            raise StoreAway(f"the store {self.url} is not there: {error}; make its bucket or folder first") from error
        self.sent += len(whole)
        self._step(f"put {name}, done")

    def get(self, name: str, head: type[T]) -> tuple[bytes, T]:
        """Read an object; raises StoreDamaged."""
        try:
            with self._answering():
                whole: bytes = self._files.cat_file(f"{self._place}/{name}")
        except FileNotFoundError:
            raise StoreDamaged(f"{self.url}/{name} is missing") from None
        length = int.from_bytes(whole[-_FOOT : _LENGTH - _FOOT], "big")
        content = whole[:-_FOOT]
        digest = whole[_LENGTH - _FOOT : -len(_MAGIC)]
        if not whole.endswith(_MAGIC) or length > len(content) or sha256(content).digest() != digest:
            raise StoreDamaged(f"{self.url}/{name} is damaged")
        split = len(content) - length
        try:
            return content[:split], msgspec.msgpack.decode(content[split:], type=head)
        except msgspec.MsgspecError as error:
            raise StoreDamaged(f"{self.url}/{name} cannot be read: {error}") from error

    def sizes(self, folder: str) -> dict[str, int]:
        """The objects in a folder, in the order of their names."""
        try:
            with self._answering():
                found = self._files.ls(f"{self._place}/{folder}", detail=True)
        except FileNotFoundError:
            return {}
        names = {each["name"].rpartition("/")[2]: each["size"] for each in found if each["type"] == "file"}
        return dict(sorted((name, size) for name, size in names.items() if name))

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects that nobody needs; those that stay for some reason are harmless."""
        paths = [f"{self._place}/{name}" for name in names]
        for first in range(0, len(paths), _REMOVED_AT_ONCE):
            self._step("remove")
            with suppress(FileNotFoundError), self._answering():
                # S3 takes one request for all of them.
                self._files.rm(paths[first : first + _REMOVED_AT_ONCE])

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            self._on_answer()
            raise
        except Exception as error:  # each file system has errors of its own
            raise StoreAway(f"the store {self.url} does not do it: {str(error) or type(error).__name__}") from error
        self._on_answer()
