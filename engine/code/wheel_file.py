"""Wheels as files: their metadata, and whether code may import from them. Nothing is run or unpacked.

A wheel is imported from as it is, a zip archive. So it has to be pure Python, and to have its modules at the top.
"""

import stat
import sys
import zipfile
import zlib
from email.parser import BytesParser
from email.policy import compat32
from io import BytesIO
from pathlib import PurePosixPath
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

MOST_WHEEL_BYTES = 8 * 1024 * 1024
_MOST_UNPACKED = 64 * 1024 * 1024
_MOST_FILES = 5_000
_MOST_METADATA = 256 * 1024
_MOST_REQUIRED = 100
_BRAID = frozenset({"braid_client", "bridge", "dags", "engine", "manager", "merge", "planning", "ring", "workloads"})
_PARTS = {".so", ".pyd", ".dll", ".dylib"}
"""The suffixes of files that are not pure Python."""
_ENCRYPTED = 1


_REMEDIES = {
    "another-python": "use another version of the package",
    "module-name-taken": "use another package",
    "not-a-wheel": "send the file `.whl` of a package as it is",
    "not-pure-python": "use a wheel for py3-none-any or py2.py3-none-any, or have an operator install the package on "
    "the hosts",
    "unsafe-archive": "build the wheel anew, with the packager's own tools",
    "wheel-too-large": "use a smaller package, or have an operator install it on the hosts",
    "wrong-metadata": "build the wheel anew",
}


class UnfitWheel(ValueError):
    """A wheel that code cannot import from. Says why, by a code of the documentation, and what to do."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        self.remedy = _REMEDIES[code]
        super().__init__(f"{message}; {self.remedy}")


class Wheel(NamedTuple):
    """The metadata of a wheel; made by `read_wheel`."""

    name: str
    """In its normal form, such as `my-package`."""
    version: str
    requires: tuple[str, ...]
    """The packages that it depends on, without extras, each as in its metadata."""


def read_wheel(content: bytes) -> Wheel:
    """Read the metadata of a wheel. Raises `UnfitWheel`."""
    if len(content) > MOST_WHEEL_BYTES:
        raise UnfitWheel(
            "wheel-too-large", f"the wheel has {len(content):,} bytes; the most allowed are {MOST_WHEEL_BYTES:,}"
        )
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            return _read(archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, OverflowError) as error:
        if isinstance(error, UnfitWheel):
            raise
        raise UnfitWheel("not-a-wheel", "this is no zip archive, or a damaged one") from error


def _read(archive: zipfile.ZipFile) -> Wheel:
    files = _safe_files(archive)
    places = {PurePosixPath(name).parts[0] for name in files}
    infos = sorted(place for place in places if place.endswith(".dist-info"))
    if len(infos) != 1:
        raise UnfitWheel("not-a-wheel", f"it has {len(infos)} folders `.dist-info`, not one")
    metadata = _fields(archive, f"{infos[0]}/METADATA")
    kind = _fields(archive, f"{infos[0]}/WHEEL")
    name, version = _one(metadata, "Name"), _one(metadata, "Version")
    identity = _identity(name, version)
    if _identity(*infos[0].removesuffix(".dist-info").rpartition("-")[::2]) != identity:
        raise UnfitWheel(
            "wrong-metadata",
            f"its folder {infos[0][:200]!r} is not that of version {version!r} of {name!r}, which its metadata names",
        )
    _check_pure(files, kind)
    _check_python(metadata)
    _check_names(places)
    return Wheel(*identity, _required(metadata))


def _identity(name: str, version: str) -> tuple[str, str]:
    """A name and a version in their normal forms."""
    try:
        return str(canonicalize_name(name, validate=True)), str(Version(version))
    except (InvalidName, InvalidVersion):
        raise UnfitWheel(
            "wrong-metadata", f"{name[:100]!r} and {version[:100]!r} are not a name and a version of a package"
        ) from None


def _safe_files(archive: zipfile.ZipFile) -> list[str]:
    entries = archive.infolist()
    if len(entries) > _MOST_FILES or sum(entry.file_size for entry in entries) > _MOST_UNPACKED:
        raise UnfitWheel(
            "wheel-too-large",
            f"it has more than {_MOST_FILES:,} files, or {_MOST_UNPACKED:,} bytes when it is unpacked",
        )
    seen: set[str] = set()
    for entry in entries:
        # As it is in the archive: zipfile ends names at a zero byte, and others do not.
        name = entry.orig_filename
        kind = stat.S_IFMT(entry.external_attr >> 16)
        plain = name.removesuffix("/")
        if (
            not plain
            or not name.isprintable()
            or str(PurePosixPath(plain)) != plain
            or {"..", "."} & set(plain.split("/"))
            or plain.startswith("/")
            or any(mark in name for mark in "\\:")
            or kind not in {0, stat.S_IFREG, stat.S_IFDIR}
            or plain in seen
            or entry.flag_bits & _ENCRYPTED
            or entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
        ):
            raise UnfitWheel(
                "unsafe-archive",
                f"the entry {name[:100]!r} is there twice, encrypted or no plain file, or its path leads elsewhere",
            )
        seen.add(plain)
    return [entry.orig_filename for entry in entries if not entry.is_dir()]


def _fields(archive: zipfile.ZipFile, name: str) -> dict[str, list[str]]:
    """The header fields of a file, which may be repeated."""
    try:
        with archive.open(name) as file:
            content = file.read(_MOST_METADATA + 1)
    except KeyError:
        raise UnfitWheel("not-a-wheel", f"it has no file {name!r}") from None
    if len(content) > _MOST_METADATA:
        raise UnfitWheel("not-a-wheel", f"its file {name!r} has more than {_MOST_METADATA:,} bytes")
    message = BytesParser(policy=compat32).parsebytes(content, headersonly=True)
    values: dict[str, list[str]] = {}
    for key, value in message.items():
        values.setdefault(key.lower(), []).append(str(value).strip())
    return values


def _one(fields: dict[str, list[str]], name: str) -> str:
    values = fields.get(name.lower(), [])
    if len(values) != 1 or not values[0].isprintable() or not 0 < len(values[0]) <= 100:  # noqa: PLR2004 - as for modules
        raise UnfitWheel("wrong-metadata", f"its metadata has no single field {name!r}")
    return values[0]


def _check_pure(files: list[str], kind: dict[str, list[str]]) -> None:
    tags = kind.get("tag", [])
    binary = next((name for name in files if PurePosixPath(name).suffix.lower() in _PARTS), "")
    elsewhere = next((name for name in files if ".data/purelib/" in name or ".data/platlib/" in name), "")
    pure = kind.get("root-is-purelib", [""])[0].lower() == "true"
    # A wheel for both has a tag for each.
    fits = set(tags) & {"py3-none-any"} and set(tags) <= {"py2-none-any", "py3-none-any"}
    if pure and fits and not binary and not elsewhere:
        return
    name = (binary or elsewhere)[:100]
    why = f"it has {name!r}" if name else f"its tags are {', '.join(tags)[:100]!r}"
    raise UnfitWheel(
        "not-pure-python",
        f"it is no wheel of pure Python with its modules at the top: {why}",
    )


def _check_python(metadata: dict[str, list[str]]) -> None:
    for text in metadata.get("requires-python", []):
        try:
            fits = SpecifierSet(text).contains(".".join(map(str, sys.version_info[:3])), prereleases=True)
        except InvalidSpecifier:
            raise UnfitWheel("wrong-metadata", f"its Requires-Python is {text[:100]!r}") from None
        if not fits:
            raise UnfitWheel(
                "another-python",
                f"it needs Python {text[:100]}, and this is {sys.version_info[0]}.{sys.version_info[1]}",
            )


def _check_names(places: set[str]) -> None:
    taken = _BRAID | sys.stdlib_module_names
    for place in sorted(places):
        if (name := place.partition(".")[0]) in taken:
            raise UnfitWheel(
                "module-name-taken",
                f"its module {name!r} has the name of one of Python's, or of Braid's",
            )


def _required(metadata: dict[str, list[str]]) -> tuple[str, ...]:
    texts = metadata.get("requires-dist", [])
    if len(texts) > _MOST_REQUIRED:
        raise UnfitWheel("wrong-metadata", f"it requires more than {_MOST_REQUIRED} packages")
    required = []
    for text in texts:
        try:
            requirement = Requirement(text)
            needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        except (InvalidRequirement, ValueError, KeyError) as error:
            raise UnfitWheel("wrong-metadata", f"its Requires-Dist {text[:100]!r} cannot be read") from error
        if needed:
            requirement.marker = None
            required.append(str(requirement))
    return tuple(required)
