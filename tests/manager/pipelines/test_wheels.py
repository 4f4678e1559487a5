"""Use cases of wheels: who may send which, what modules require of them, and what the quota counts."""

import json
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from braid_client.answers.overview import OperationKind
from braid_client.answers.pipelines import WheelAnswer
from braid_client.answers.tenants import PublishingForm, Quota
from engine.code.store import WheelStore
from manager.documents.canonical import modules_of
from manager.problem import Conflict, Forbidden, InvalidModule, InvalidWheel, NotFound, QuotaExceeded, StateNotReady
from manager.use_case import Caller, Paging
from tests.engine.code.publication import wheel
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, every


@pytest.fixture
def manager(empty_url: str, tmp_path: Path) -> Iterator[Manager]:
    made = Manager(empty_url).lead()
    made.equip(wheels=WheelStore(tmp_path))
    made.admit("ann", "bob")
    for who in ("ann", "bob"):
        made.service.administration.set_publishing(OPERATOR, who, PublishingForm(code=True))
    yield made
    made.close()


def put(manager: Manager, who: Caller, content: bytes) -> WheelAnswer:
    """Send a wheel."""
    return manager.service.wheels.put(who, sha256(content).hexdigest(), content)


def publish(manager: Manager, who: Caller, *requirements: str, name: str = "script") -> tuple[str, ...]:
    """Publish code; the digests of the wheels that planning knows of it."""
    code = {"source": "def process(event): return event", "requirements": list(requirements)}
    form = {"name": name, "version": 1, "shape": "filter", "code": code}
    manager.service.modules.publish(who, json.dumps(form).encode())
    with manager.store.read() as session:
        return next(each.wheels for each in modules_of(session, who.tenant or "nobody") if each.form.name == name)


def problems(manager: Manager, who: Caller, *requirements: str) -> list[tuple[str, str]]:
    """The places and codes of what is wrong with requirements."""
    with pytest.raises(InvalidModule) as refused:
        publish(manager, who, *requirements, name="refused")
    return [(each.pointer, each.code) for each in refused.value.errors]


def listed(manager: Manager, who: Caller, tenant: str | None = None) -> list[tuple[str | None, str, str]]:
    """Owners, names and versions of wheels."""
    found = every(partial(manager.service.wheels.page, who, tenant=tenant), 2)
    return [(each.owner, each.name, each.version) for each in found]


def files(tmp_path: Path) -> set[str]:
    """The digests of the wheels in the root."""
    return {path.stem for path in tmp_path.rglob("*.whl")}


def test_a_wheel_is_kept_once_and_listed_for_its_owner(manager: Manager, tmp_path: Path) -> None:
    """Two owners of one file share it; sending it again repairs it and changes nothing else."""
    content = wheel(requires=("small>=1",))
    first = put(manager, ANN, content)
    assert ("ann", "tiny", "1.0", len(content), ("small>=1",)) == (
        *(first.owner, first.name, first.version, first.bytes, first.requires),
    )
    Path(WheelStore(tmp_path).path(first.digest)).write_bytes(b"damaged")
    assert first == put(manager, ANN, content)
    assert content == Path(WheelStore(tmp_path).path(first.digest)).read_bytes()
    for who in (BOB, OPERATOR):
        put(manager, who, content)
    assert [("ann", "tiny", "1.0")] == listed(manager, ANN) == listed(manager, OPERATOR, "ann")
    assert ["ann", "bob", None] == [owner for owner, *_ in listed(manager, OPERATOR)]
    assert {first.digest} == files(tmp_path)
    kinds = [each.kind for each in manager.service.operations.page(OPERATOR, Paging()).items]
    assert [OperationKind.PUT_WHEEL] * 3 == kinds[:3]


def test_what_is_no_wheel_for_code_is_refused(manager: Manager, tmp_path: Path) -> None:
    """And not kept: one under another digest, one that is none, one that is there as another file, a stranger's."""
    manager.service.administration.set_publishing(OPERATOR, "bob", PublishingForm(code=False))
    codes = []
    for content, digest in ((wheel(), "0" * 64), (b"", sha256(b"").hexdigest())):
        with pytest.raises(InvalidWheel) as refused:
            manager.service.wheels.put(ANN, digest, content)
        codes += [each.code for each in refused.value.errors]
    assert ["wrong-digest", "not-a-wheel"] == codes
    with pytest.raises(Forbidden):
        put(manager, BOB, wheel())
    assert set() == files(tmp_path)
    kept = put(manager, ANN, wheel())
    with pytest.raises(Conflict, match="a version never changes"):
        put(manager, ANN, wheel(files={}))
    assert {kept.digest} == files(tmp_path)


def test_a_module_gets_the_wheels_of_its_owner(manager: Manager) -> None:
    """In the order of its requirements, however they are written; an operator's module those of operators."""
    tiny, other = put(manager, ANN, wheel("Tiny_Thing")), put(manager, ANN, wheel("other", "2.0"))
    put(manager, BOB, wheel("bobs"))
    operators = put(manager, OPERATOR, wheel("other", "2.0", files={}))
    assert (other.digest, tiny.digest) == publish(manager, ANN, "other == 2", "tiny.thing==1.0")
    assert [("/code/requirements/0", "wheel-missing")] == problems(manager, ANN, "bobs==1.0")
    assert [("/code/requirements/0", "wheel-missing")] == problems(manager, ANN, "other==2.1")
    publish(manager, OPERATOR, "other==2.0", name="everybodys")
    with manager.store.read() as session:
        found = {each.form.name: each for each in modules_of(session, "bob")}
    assert (operators.digest,) == found["everybodys"].wheels
    config = found["everybodys"].config({}, {})
    assert [operators.digest] == config["wheels"]


@pytest.mark.parametrize(
    ("requirements", "codes"),
    [
        (["tiny"], ["not-pinned"]),
        (["tiny>=1"], ["not-pinned"]),
        (["tiny==1.*"], ["not-pinned"]),
        (["tiny[fast]==1.0"], ["not-pinned"]),
        (["tiny==1.0; python_version > '3'"], ["not-pinned"]),
        (["tiny @ https://example.org/tiny.whl"], ["not-pinned"]),
        (["tiny==1.0", "Tiny==2.0"], ["required-twice"]),
    ],
)
def test_requirements_are_packages_each_pinned_once(
    manager: Manager, requirements: list[str], codes: list[str]
) -> None:
    """Anything else would mean something else tomorrow, or on another host."""
    assert codes == [code for _, code in problems(manager, ANN, *requirements)]


def test_what_a_wheel_depends_on_is_required_or_installed(manager: Manager) -> None:
    """In a version that fits; else the module is refused, and nothing of it is kept."""
    for content in (
        wheel("needy", requires=("small>=1", "numpy", "absent; extra == 'more'")),
        wheel("picky", requires=("numpy<1",)),
        wheel("small", "0.5"),
        wheel("small", "1.5"),
    ):
        put(manager, ANN, content)
    missing = "dependency-missing"
    assert [("/code/requirements/0", missing)] == problems(manager, ANN, "needy==1.0")
    assert [("/code/requirements/0", missing)] == problems(manager, ANN, "needy==1.0", "small==0.5")
    assert [("/code/requirements/1", missing)] == problems(manager, ANN, "small==0.5", "picky==1.0")
    assert 2 == len(publish(manager, ANN, "needy==1.0", "small==1.5"))


def test_a_tenant_has_so_many_bytes_of_wheels(manager: Manager, tmp_path: Path) -> None:
    """What is there already counts once; what is removed makes room; operators have no limit."""
    first, second = wheel(), wheel("other")
    quota = Quota(wheel_bytes=len(first) + len(second) - 1)
    assert quota == manager.service.administration.set_quota(OPERATOR, "ann", quota).quota
    for _ in range(2):
        put(manager, ANN, first)
    with pytest.raises(QuotaExceeded, match="may have"):
        put(manager, ANN, second)
    assert {sha256(first).hexdigest()} == files(tmp_path)
    manager.service.wheels.remove(ANN, sha256(first).hexdigest())
    put(manager, ANN, second)
    for content in (first, second):
        put(manager, OPERATOR, content)


def test_a_wheel_goes_unless_a_module_requires_it(manager: Manager, tmp_path: Path) -> None:
    """Its file stays while anybody else has it."""
    wheels = manager.service.wheels
    content = wheel()
    digest = put(manager, ANN, content).digest
    put(manager, BOB, content)
    publish(manager, ANN, "tiny==1.0")
    with pytest.raises(Conflict, match=r"script@1 requires tiny 1\.0"):
        wheels.remove(ANN, digest)
    with pytest.raises(NotFound):
        wheels.remove(OPERATOR, digest)
    wheels.remove(OPERATOR, digest, tenant="bob")
    assert ([("ann", "tiny", "1.0")], {digest}) == (listed(manager, OPERATOR), files(tmp_path))
    spare = put(manager, ANN, wheel("spare")).digest
    wheels.remove(ANN, spare)
    assert {digest} == files(tmp_path)


def test_a_manager_without_a_root_takes_no_wheel(manager: Manager) -> None:
    """It says so."""
    manager.equip(wheels=None)
    with pytest.raises(StateNotReady):
        put(manager, ANN, wheel())
