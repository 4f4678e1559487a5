"""Wheels that tests build."""

import zipfile
from collections.abc import Mapping
from io import BytesIO

WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {pure}\n{tags}"


def wheel(  # noqa: PLR0913 - each is a part of it that a test sets
    name: str = "tiny",
    version: str = "1.0",
    files: Mapping[str, str | bytes] | None = None,
    *,
    requires: tuple[str, ...] = (),
    tags: tuple[str, ...] = ("py3-none-any",),
    pure: bool = True,
    more: str = "",
    folder: str = "",
) -> bytes:
    """A wheel with some files; by default it has one module of its name, with its version."""
    made = BytesIO()
    info = folder or f"{name.replace('-', '_')}-{version}.dist-info"
    lines = "".join(f"Requires-Dist: {each}\n" for each in requires)
    contents = {
        **({f"{name.replace('-', '_')}.py": f"VERSION = {version!r}\n"} if files is None else files),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}{more}\nDescription.\n",
        f"{info}/WHEEL": WHEEL.format(pure=str(pure).lower(), tags="".join(f"Tag: {each}\n" for each in tags)),
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in contents.items():
            # With a fixed time, so that equal wheels are equal.
            archive.writestr(zipfile.ZipInfo(path), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()
