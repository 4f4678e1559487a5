"""Secrets: references that are hashed with their owner, so that tenants never share a task with a secret."""

from typing import Any

import pytest

from dags import NamesSource, Secret, TaskType
from tests.dags.refusal import FREE, canonicalise, catalogue_with, problem, problems, signature
from tests.notation import document

FETCH = document("s:source > f:fetch{'password': {'secret': 'key'}} > k:sink")


def with_password(password: Any) -> dict[str, Any]:
    return {
        **FETCH,
        "tasks": [FETCH["tasks"][0], {**FETCH["tasks"][1], "config": {"password": password}}, FETCH["tasks"][2]],
    }


def test_a_secret_is_signed_with_its_owner() -> None:
    """The owner is the tenant that submits. Tasks downstream differ too, tasks upstream do not."""
    texts = {canonicalise(FETCH, tenant=tenant).tasks[1].text for tenant in ("ann", "bob")}
    assert [b'{"password":{"owner":"ann","secret":"key"}}', b'{"password":{"owner":"bob","secret":"key"}}'] == sorted(
        text.split(b",", 3)[3].partition(b",[[")[0] for text in texts
    )
    for task, signatures in (("s", 1), ("f", 2), ("k", 2)):
        assert signatures == len({signature(FETCH, task, tenant=tenant) for tenant in ("ann", "bob")})


def test_a_secret_in_the_config_of_a_source_has_its_owner_too() -> None:
    """Even though the source itself is identified by its registration."""

    class LockedConfig(NamesSource):
        password: Secret

    catalogue = catalogue_with(TaskType(name="locked", config=LockedConfig, inputs=()))
    written = document("s:locked{'source': 'weather', 'password': {'secret': 'key'}} > k:sink")
    flow = canonicalise(written, tenant="bob", catalogue=catalogue)
    assert {"source": "weather", "password": {"secret": "key", "owner": "bob"}} == flow.tasks[0].config


def test_one_tenants_secret_of_one_name_signs_alike() -> None:
    """A secret of another name does not."""
    assert signature(FETCH, "f") == signature({**FETCH, "name": "again"}, "f")
    assert signature(FETCH, "f") != signature(with_password({"secret": "other"}), "f")


def test_a_tenant_cannot_name_the_owner_of_a_secret() -> None:
    """Not even itself."""
    for owner in ("ann", "bob"):
        place = "/tasks/1/config/password/owner"
        expected = problem(place, "unknown-field", "unknown field 'owner'", "remove it")
        assert [expected] == problems(with_password({"secret": "key", "owner": owner}), tenant="ann")


@pytest.mark.parametrize(
    ("password", "place", "code"),
    [
        ("key", "", "wrong-type"),
        (None, "", "wrong-type"),
        ({}, "/secret", "missing-field"),
        ({"secret": 5}, "/secret", "wrong-type"),
        ({"sceret": "key"}, "/sceret", "unknown-field"),
    ],
)
def test_a_secret_is_a_reference(password: Any, place: str, code: str) -> None:
    """An object with its name, never the secret itself."""
    found = problems(with_password(password))
    assert (f"/tasks/1/config/password{place}", code) == (found[0].pointer, found[0].code)


def test_a_value_that_looks_like_a_secret_is_a_value() -> None:
    """In a free-form field it has no owner, and none is added."""
    written = document("s:source > f:free > k:sink")
    written["tasks"][1]["config"] = {"value": {"secret": "key"}}
    catalogue = catalogue_with(FREE)
    assert {"value": {"secret": "key"}} == canonicalise(written, catalogue=catalogue).tasks[1].config
    assert 1 == len({signature(written, "f", tenant=tenant, catalogue=catalogue) for tenant in ("ann", "bob")})
