"""Config values that depend on the tenant: only a host's worker resolves them, for their owner and once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import ValidationError, create_model

from dags import Config, Place, Secret
from dags.config import Where


@dataclass
class Outside:
    """A host's access to the outside world that notes what it was asked."""

    asked: list[tuple[str, ...]] = field(default_factory=list)

    def secret(self, owner: str, name: str) -> str:
        self.asked.append(("secret", owner, name))
        return f"{owner}'s {name}"

    def place(self, owner: str, path: str) -> str:
        self.asked.append(("place", owner, path))
        return f"/files/{owner}/{path}"

    def barred(self, host: str) -> str:
        return f"{host} is inside"

    def addresses(self, host: str) -> Sequence[str]:
        return [f"address of {host}"]

    def code(self, digest: str) -> str:
        raise NotImplementedError

    def wheel(self, digest: str) -> str:
        raise NotImplementedError

    def vouched(self, owner: str, digest: str, entry: str, per: str) -> bool:
        raise NotImplementedError


class Kept(Config):
    password: Secret
    folder: Place


KEPT = Kept(password=Secret.model_validate({"secret": "pw"}), folder=Place(place="a/b"))


def test_a_worker_resolves_for_the_owner() -> None:
    """The plan names the owner, and the host is asked once for each value."""
    outside = Outside()
    written = KEPT.model_dump(context={"owner": "ann"})
    assert {
        "password": {"secret": "pw", "owner": "ann"},
        "folder": {"place": "a/b", "owner": "ann"},
    } == written
    read = Kept.model_validate(written, context={"outside": outside})
    assert ("ann's pw", "/files/ann/a/b") == (read.password.revealed, read.folder.path)
    assert ("ann's pw", "/files/ann/a/b") == (read.password.revealed, read.folder.path)
    assert [("secret", "ann", "pw"), ("place", "ann", "a/b")] == outside.asked
    assert ("web is inside", ["address of web"]) == (read.password.barred("web"), read.password.addresses("web"))


def test_a_value_without_owner_is_nobodys() -> None:
    """The host is asked for an owner without a name."""
    outside = Outside()
    Kept.model_validate(KEPT.model_dump(), context={"outside": outside})
    assert ["", ""] == [owner for _, owner, _ in outside.asked]


def test_nothing_is_resolved_elsewhere() -> None:
    """The configs of documents and plans hold only references, and no document may name an owner."""
    message = r"secret='pw' is resolved only in a host's worker, which has its plan"
    with pytest.raises(LookupError, match=f"^{message}$"):
        _ = KEPT.password.revealed
    with pytest.raises(LookupError, match=f"^{message}$"):
        KEPT.password.barred("web")
    with pytest.raises(LookupError, match=f"^{message}$"):
        KEPT.password.addresses("web")
    with pytest.raises(LookupError, match=r"^place='a/b' is resolved only"):
        _ = KEPT.folder.path
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        Kept.model_validate(KEPT.model_dump(context={"owner": "ann"}))


class Reading(Config):
    place: Where


@pytest.mark.parametrize(
    ("given", "where", "why"),
    [
        ({"secret": 1}, ("place", "a secret", "secret"), "Input should be a valid string"),
        ({"place": "../x"}, ("place", "a place", "place"), "String should match pattern"),
        ({"plase": "x"}, ("place",), "Input should be an object with the field 'secret' or the field 'place'"),
        ("x", ("place",), "Input should be an object with the field 'secret' or the field 'place'"),
    ],
)
def test_only_what_a_value_is_meant_for_is_a_problem(given: Any, where: tuple[str, ...], why: str) -> None:
    """A secret or a place, by the field that it has; read or made, either is itself."""
    with pytest.raises(ValidationError) as refused:
        Reading.model_validate({"place": given})
    (error,) = refused.value.errors()
    assert where == error["loc"]
    assert error["msg"].startswith(why)
    for value in (KEPT.password, KEPT.folder):
        assert value == Reading(place=value).place == Reading.model_validate({"place": value.model_dump()}).place


def test_no_schema_has_owners() -> None:
    """What is answered has the form of what was asked, so clients know its fields."""
    expected = {"secret": {"title": "Secret", "type": "string"}}
    for mode in ("validation", "serialization"):
        schema = Kept.model_json_schema(mode=mode)
        assert expected == schema["$defs"]["Secret"]["properties"]
        assert schema == Kept.model_json_schema()


def test_no_config_has_a_set() -> None:
    """Its order would change the signature from run to run, wherever in a field it is."""
    annotations: list[Any] = [set[str], frozenset[int], dict[str, set[str]], set[str] | None]
    for annotation in annotations:
        with pytest.raises(TypeError, match="the config field 'tags' is a set; its order changes"):
            create_model("Bad", __base__=Config, tags=(annotation, ...))
