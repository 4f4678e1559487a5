"""Code: a tenant runs what was published, and not what its document claims."""

from collections.abc import Iterator

import pytest

from dags import Catalogue, Kind, Schema, Source, canonicalise
from engine.tasks import TYPES
from engine.tasks.code import CodeConfig
from manager.answers import SourceForm
from manager.problem import InvalidDataflow
from manager.submissions.code_check import check_code
from tests.manager.managers import Manager, caller, raw

DIGEST = "ab" * 32
CATALOGUE = Catalogue.of(TYPES)


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    made = Manager(sqlite, catalogue=CATALOGUE).lead()
    made.admit("ann")
    form = {"name": "street", "connection": {"kind": "topic", "topic": "ann/street"}, "schema": {"n": "integer"}}
    made.service.sources.register(caller("ann"), SourceForm.model_validate(form))
    yield made
    made.close()


def line(*, vouched: bool) -> str:
    config = f"{{'digest': '{DIGEST}', 'entry': 'entry', 'owner': 'ann', 'vouched': {vouched}}}"
    return f"s:source{{'source': 'street'}} > c:code{config} > k:output"


@pytest.mark.parametrize("vouched", [False, True])
def test_a_tenant_cannot_write_such_a_task_itself(manager: Manager, *, vouched: bool) -> None:
    """Or it would say who published the source, and that an operator vouches for it."""
    with pytest.raises(InvalidDataflow) as refused:
        manager.submit("ann", line(vouched=vouched))
    assert [("/tasks/1/config", "code-not-published")] == [(each.pointer, each.code) for each in refused.value.errors]


def test_what_was_published_runs_as_it_was() -> None:
    """Asked are the tenant and the whole config, so an invented voucher is not that of the publication."""
    source = Source(name="street", owner="ann", schema=Schema.of(n=Kind.INTEGER))

    def published(tenant: str, config: CodeConfig) -> bool:
        return (tenant, config.digest, config.owner, config.vouched) == ("ann", DIGEST, "ann", False)

    for vouched in (False, True):
        text = raw(line(vouched=vouched))
        made = canonicalise(text, dataflow="d", tenant="ann", catalogue=CATALOGUE, sources={"street": source})
        if not vouched:
            check_code(made, text, published)
            continue
        with pytest.raises(InvalidDataflow):
            check_code(made, text, published)
