"""People who edit the same dataflow over REST: the second learns what the first has changed."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlmodel import col, select
from typer.testing import CliRunner

from braid_client.answers.reconfigurations import ReconfigurationForm
from braid_client.client import Client
from braid_client.errors import Refused
from manager.command import app
from manager.documents.revisions import differences
from manager.exit_codes import ExitCode
from manager.kernel.dataflow_rows import MOST_REPLACED
from manager.rest import examples
from manager.store.tables import ReplacedDocumentRow
from tests.manager.rest.socket_server import serving
from tests.manager.rest.town import OTHER, OWN, Town, town

DOCUMENT = examples.DOCUMENT


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town(tmp_path_factory.mktemp("editors")) as made:
        yield made


@pytest.fixture(scope="module")
def asking(living: Town) -> Iterator[dict[str, httpx.Client]]:
    """A client for each tenant."""
    with serving(living.app) as url, ExitStack() as clients:
        yield {
            who: clients.enter_context(
                httpx.Client(base_url=url, headers={"Authorization": f"Bearer {living.keys[who]}"}, trust_env=False)
            )
            for who in ("ann", "bob")
        }


@pytest.fixture
def ann(asking: dict[str, httpx.Client]) -> httpx.Client:
    return asking["ann"]


def _submitted(client: httpx.Client, document: Any = OWN) -> tuple[str, str]:
    """The path of a new dataflow, and the tag of its document."""
    answer = client.post("/v1/dataflows", json=document)
    assert answer.status_code == 201, answer.text
    return answer.headers["Location"], answer.headers["ETag"]


def _with_max(most: float) -> Any:
    return json.loads(json.dumps(OWN).replace("43.1", f"{most}"))


def test_the_second_of_two_editors_learns_what_the_first_has_changed(ann: httpx.Client) -> None:
    """It gets 412 with the difference and the tag of what is there, by which it may overwrite that knowingly."""
    path, tag = _submitted(ann)
    assert [tag, tag] == [ann.get(path).headers["ETag"] for _ in ("first", "second")]
    first = ann.put(path, json=_with_max(50.5), headers={"If-Match": tag})
    assert (200, 2) == (first.status_code, first.json()["revision"])
    mine = OWN | {"name": "mine"}
    second = ann.put(path, json=mine, headers={"If-Match": tag})
    problem = second.json()
    assert (412, "/problems/changed", path) == (second.status_code, problem["type"], problem["instance"])
    assert [("/tasks/1/config/max", "changed", "task plausible has 50.5 as its config.max, and had 43.1")] == [
        (error["pointer"], error["code"], error["message"]) for error in problem["errors"]
    ]
    there = ann.get(path)
    assert (2, first.headers["ETag"]) == (there.json()["revision"], second.headers["ETag"])
    assert second.headers["ETag"] == there.headers["ETag"] == f'"{there.json()["tag"]}"'
    assert 200 == ann.put(path, json=mine, headers={"If-Match": second.headers["ETag"]}).status_code
    assert "mine" == ann.get(path).json()["name"]


def test_what_came_and_went_is_described_in_the_words_of_the_document(ann: httpx.Client) -> None:
    """Tasks and streams by their names, and fields of the document by theirs."""
    path, tag = _submitted(ann)
    shorter = OWN | {
        "name": "shorter",
        "tasks": [task for task in OWN["tasks"] if task["id"] != "average"],
        "streams": [
            *(stream for stream in OWN["streams"] if "average" not in {stream["from"], stream["to"]}),
            {"from": "plausible", "to": "averages"},
        ],
    }
    assert 200 == ann.put(path, json=shorter).status_code
    errors = ann.put(path, json=OWN, headers={"If-Match": tag}).json()["errors"]
    assert {
        ("/name", 'document has "shorter" as its name, and had "averages of plausible temperatures"'),
        ("/tasks", "task average is gone"),
        ("/streams", "stream plausible → average is gone"),
        ("/streams", "stream average → averages is gone"),
        ("/streams", "stream plausible → averages is new"),
    } == {(error["pointer"], error["message"]) for error in errors}


def test_removals_and_reconfigurations_are_made_for_a_document_too(ann: httpx.Client) -> None:
    """Neither is done for another document than the one named, not even as a preview; `*` is any."""
    path, tag = _submitted(ann)
    assert 200 == ann.put(path, json=_with_max(50.5)).status_code
    patch, old = {"tasks": {"plausible": {"config": {"max": 60.0}}}}, {"If-Match": f'"another", {tag}'}
    refused = [
        ann.post(f"{path}/reconfigurations", json=patch, headers=old),
        ann.post(f"{path}/reconfigurations?dry_run=true", json=patch, headers=old),
        ann.delete(path, headers=old),
        ann.delete(f"{path}?stop=drain", headers=old),
    ]
    assert [(412, 1)] * len(refused) == [(answer.status_code, len(answer.json()["errors"])) for answer in refused]
    assert [] == ann.get(f"{path}/reconfigurations").json()["items"]
    assert 200 == ann.delete(path, headers={"If-Match": "*"}).status_code


def test_a_reconfiguration_changes_the_document_as_a_replacement_does(ann: httpx.Client, living: Town) -> None:
    """Who has the document from before it learns what it changed."""
    path = f"/v1/dataflows/{living.places['alone']}"
    _, tag = _submitted(ann)
    answer = ann.put(path, json=OWN, headers={"If-Match": tag})
    assert (412, ["task plausible has 60.0 as its config.max, and had 43.1"]) == (
        answer.status_code,
        [error["message"] for error in answer.json()["errors"]],
    )


def test_the_client_and_the_command_line_change_what_they_have_seen(living: Town, tmp_path: Path) -> None:
    """With its tag; a refusal says what differs, and on the command line it is a conflict."""
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(_with_max(60.0)))
    with serving(living.app) as url, Client(url, living.keys["ann"]) as client:
        made = client.submit(OWN)
        seen = client.dataflow(made.id)
        assert made.tag == seen.tag != client.replace(made.id, _with_max(50.5), if_match=seen.tag).tag
        patch = ReconfigurationForm(tasks={"plausible": {"config": {"max": 60.0}}})
        for change in (
            lambda: client.replace(made.id, OWN, if_match=seen.tag),
            lambda: client.remove(made.id, if_match=seen.tag),
            lambda: client.reconfigure(made.id, patch, if_match=seen.tag),
        ):
            with pytest.raises(Refused) as refused:
                change()
            assert (412, "changed") == (refused.value.status, refused.value.code)
            assert ["task plausible has 50.5 as its config.max, and had 43.1"] == [
                error.message for error in refused.value.errors
            ]
        environment = {"BRAID_URL": url, "BRAID_KEY": living.keys["ann"]}
        words = ["replace", made.id, str(edited), "--if-match"]
        late = CliRunner().invoke(app, [*words, seen.tag], env=environment)
        assert ExitCode.CONFLICT == late.exit_code
        assert "task plausible has 50.5 as its config.max, and had 43.1" in late.stderr
        shown = CliRunner().invoke(app, ["show", made.id], env=environment).stdout
        tag = client.dataflow(made.id).tag
        assert f"its document has the tag {tag}" in shown
        assert ExitCode.WELL == CliRunner().invoke(app, [*words, tag], env=environment).exit_code


def test_a_tag_stands_for_what_a_document_says(ann: httpx.Client) -> None:
    """However it is written, also if it was otherwise in between; a weak tag stands for nothing."""
    path, tag = _submitted(ann)
    spread = json.dumps(OWN, indent=8, sort_keys=True).encode()
    json_type = {"Content-Type": "application/json"}
    assert tag == ann.put(path, content=spread, headers=json_type | {"If-Match": tag}).headers["ETag"]
    assert tag != ann.put(path, json=_with_max(50.5)).headers["ETag"]
    assert tag == ann.put(path, json=OWN).headers["ETag"]
    assert 200 == ann.put(path, json=OWN, headers={"If-Match": tag}).status_code
    assert 412 == ann.put(path, json=OWN, headers={"If-Match": f"W/{tag}"}).status_code


def test_a_pipeline_has_the_tag_of_what_was_sent(ann: httpx.Client) -> None:
    """Not of what was planned of it, nor a dynamic dataflow that of what it was resolved to."""
    for document in (OWN | {"goals": []}, OWN | {"policy": {}}):
        path, tag = _submitted(ann, document)
        assert tag == ann.get(path).headers["ETag"]
        assert 200 == ann.put(path, json=document | {"name": "edited"}, headers={"If-Match": tag}).status_code
        assert ["document"] == [
            error["message"].partition(" ")[0]
            for error in ann.put(path, json=document, headers={"If-Match": tag}).json()["errors"]
        ]


def test_a_difference_points_at_a_field_whose_name_has_a_dot() -> None:
    """At the place in the document, as of any other field."""
    before, now = ({"tasks": [{"id": "a", "config": {"schema": {"wind.speed": kind}}}]} for kind in ("int", "float"))
    message = 'task a has "float" as its config.schema.wind.speed, and had "int"'
    assert [("/tasks/0/config/schema/wind.speed", message)] == [
        (problem.pointer, problem.message) for problem in differences(before, now)
    ]


def test_a_tag_lets_nobody_in(asking: dict[str, httpx.Client]) -> None:
    """Another tenant that has the same document, and so the same tag, learns nothing of this one."""
    path, tag = _submitted(asking["ann"], DOCUMENT)
    _, others = _submitted(asking["bob"], DOCUMENT)
    assert tag == others
    for headers in ({"If-Match": tag}, {"If-Match": '"of-another"'}):
        assert 404 == asking["bob"].put(path, json=OTHER, headers=headers).status_code
        assert 404 == asking["bob"].delete(path, headers=headers).status_code
    assert (1, tag) == ((there := asking["ann"].get(path)).json()["revision"], there.headers["ETag"])


def test_the_last_documents_are_kept_until_a_dataflow_is_removed(ann: httpx.Client, living: Town) -> None:
    """Of what is older, only that it is not there any more is said."""
    path, oldest = _submitted(ann)
    for at in range(MOST_REPLACED + 1):
        assert 200 == ann.put(path, json=_with_max(50.0 + at)).status_code
    answer = ann.put(path, json=OWN, headers={"If-Match": oldest})
    assert (412, []) == (answer.status_code, answer.json()["errors"])
    kept = select(ReplacedDocumentRow).where(col(ReplacedDocumentRow.dataflow) == path.rpartition("/")[2])
    with living.tools.store.read() as session:
        assert MOST_REPLACED == len(session.exec(kept).all())
    assert 200 == ann.delete(path).status_code
    with living.tools.store.read() as session:
        assert [] == session.exec(kept).all()


def test_what_is_answered_again_is_marked(ann: httpx.Client) -> None:
    """A submission, several together, and a change, each with its idempotency key."""
    path, _ = _submitted(ann)
    requests: list[tuple[str, Any]] = [
        ("/v1/dataflows", OWN),
        ("/v1/dataflows", OWN | {"policy": {}}),
        ("/v1/dataflows/bundle", {"documents": [OWN]}),
        (f"{path}/reconfigurations", {"tasks": {"plausible": {"config": {"max": 60.0}}}}),
    ]
    for number, (at, body) in enumerate(requests):
        headers = {"Idempotency-Key": f"again-{number}"}
        first, again = (ann.post(at, json=body, headers=headers) for _ in range(2))
        assert [None, "true"] == [answer.headers.get("Idempotency-Replayed") for answer in (first, again)], again.text
        assert first.status_code == again.status_code
