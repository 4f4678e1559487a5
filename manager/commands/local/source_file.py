"""Sources from a file, for `braid check` without a service."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from dags import Kind, Schema, Source, Visibility


class _SourceForm(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    owner: Annotated[str, Field(min_length=1)]
    fields: Annotated[dict[str, Kind], Field(alias="schema")]
    visibility: Visibility = Visibility.PRIVATE
    readers: frozenset[str] = frozenset()


class _SourceFile(RootModel[dict[str, _SourceForm]]):
    """Sources by name."""


class UnreadableSources(ValueError):
    """A file of sources is wrong; the message says where and why."""


def read_sources(path: Path) -> dict[str, Source]:
    """Read sources from a JSON file: `{"name": {"owner": …, "schema": {field: kind}, "visibility": …}}`."""
    try:
        forms = _SourceFile.model_validate_json(path.read_bytes()).root
    except OSError as error:
        raise UnreadableSources(f"{path}: {error.strerror}; name a file of sources") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "/".join(map(str, first["loc"]))
        raise UnreadableSources(f"{path}: at /{place}: {first['msg']}; correct the file there") from error
    return {
        name: Source(
            name=name,
            owner=form.owner,
            schema=Schema.of(form.fields),
            visibility=form.visibility,
            readers=form.readers,
        )
        for name, form in forms.items()
    }
