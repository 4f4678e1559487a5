"""Config values that depend on the tenant: only a host's worker resolves them, for their owner and once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import create_model

from dags import Config, Place, Secret


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


def test_no_config_has_a_set() -> None:
    """Its order would change the signature from run to run, wherever in a field it is."""
    annotations: list[Any] = [set[str], frozenset[int], dict[str, set[str]], set[str] | None]
    for annotation in annotations:
        with pytest.raises(TypeError, match="the config field 'tags' is a set; its order changes"):
            create_model("Bad", __base__=Config, tags=(annotation, ...))
