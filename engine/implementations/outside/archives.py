"""Archives: the files of several events in one."""

import base64
import io
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.outside.contents import contents, texts
from engine.implementations.outside.file_stores import check_name
from engine.records.state import Staged
from engine.tasks.outside import ZIP_FILES, ZipFilesConfig

_TIME = (1980, 1, 1, 0, 0, 0)
"""The same in every archive, so that the same files make the same archive."""
_SCHEMA = pa.schema({"archive": pa.string(), "files": pa.int64()})
_WAITING = ("waiting",)
"""The state's key for the number of files in the incomplete archive. Each file is kept under its place."""


def _zip_files(config: ZipFilesConfig) -> Behaviour:
    """Emits an archive at the event that completes it. Two files of the same name are both in it.

    >>> from engine.trial import try_out
    >>> files = [{"name": f"{i}.txt", "text": "warm"} for i in range(5)]
    >>> made = try_out("zip_files", {"field": "text", "name": "name", "files": 2}, files)["out"]
    >>> [each["files"] for each in made], zipfile.ZipFile(io.BytesIO(base64.b64decode(made[1]["archive"]))).namelist()
    ([2, 2], ['2.txt', '3.txt'])
    """

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        blobs = contents(events, config.field, config.encoding)
        names = [check_name(config.name, each) for each in texts(events, config.name)]
        before = state.get(_WAITING) or 0
        files = [tuple(state.get((place,))) for place in range(before)]
        archives, ends = [], []
        for at, file in enumerate(zip(names, blobs, strict=True)):
            files.append(file)
            if len(files) >= config.files:
                archives.append({"archive": base64.b64encode(_zipped(files)).decode(), "files": len(files)})
                ends.append(at)
                files = []
        _keep(state, files, before, anew=bool(ends))
        return {"out": PortEmission(pa.RecordBatch.from_pylist(archives, schema=_SCHEMA), np.array(ends, np.int64))}

    return behave


def _keep(state: Staged, files: Sequence[tuple[str, bytes]], before: int, *, anew: bool) -> None:
    """Keep the files that wait. Earlier ones are already kept, unless they have left."""
    for place in range(0 if anew else before, len(files)):
        state.put((place,), files[place])
    for place in range(len(files), before):
        state.delete((place,))
    if len(files) != before:
        state.put(_WAITING, len(files))


def _zipped(files: Sequence[tuple[str, bytes]]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, blob) in enumerate(files):
            twice = any(other == name for other, _ in files[:number])
            archive.writestr(zipfile.ZipInfo(f"{number}-{name}" if twice else name, _TIME), blob, zipfile.ZIP_DEFLATED)
    return content.getvalue()


zip_files = Implementation(type=ZIP_FILES, make=_zip_files)
