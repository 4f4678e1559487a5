"""Modules: published, shown, deprecated and vouched for; and the wheels that their code imports from."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import islice

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from sqlmodel import Session, col, func, select
from sqlmodel.sql.expression import SelectOfScalar

from braid_client.answers.base import Page
from braid_client.answers.overview import OperationKind
from braid_client.answers.pipelines import ModuleAnswer, ModuleDetail, WheelAnswer
from dags import InvalidDocument, Problem
from dags.problems import pointer, quoted
from dags.vocabulary import ModuleShape
from engine.code.store import WheelStore
from engine.code.wheel_file import UnfitWheel, read_wheel
from manager.documents.canonical import is_vouched, visible_to
from manager.problem import Conflict, Forbidden, InvalidModule, InvalidWheel, NotFound, QuotaExceeded, StateNotReady
from manager.store.tables import ModuleRow, TenantRow, WheelRow
from manager.tenants.quotas import Holding, check_another
from manager.use_case import Base, Caller, Paging, note, operators_only, paged, tenant_of
from planning.forms import ModuleForm
from planning.pipelines.module import Module, pinned, read_module, source_digest, type_of


def wheels_for(session: Session, owner: str, requirements: Sequence[str]) -> tuple[str, ...]:
    """The digests of the wheels of sound requirements, in their order. Raises `InvalidModule` with every problem."""
    pins = [pinned(requirement) for requirement in requirements]
    wheels: dict[str, WheelRow] = {}
    problems = []
    for at, (name, number) in enumerate(pins):
        rows = session.exec(select(WheelRow).where(col(WheelRow.owner) == owner, col(WheelRow.name) == name))
        # 1 and 1.0 are the same version.
        row = next((sent for sent in rows if Version(sent.version) == Version(number)), None)
        if row is None:
            problems.append(
                _requirement_problem(
                    at, "wheel-missing", f"no wheel of {name} {number} was sent", "send it before the module"
                )
            )
        else:
            wheels[name] = row
    for at, (name, _) in enumerate(pins):
        if name in wheels:
            problems += _unmet(at, wheels[name], wheels)
    if problems:
        raise InvalidModule(problems)
    return tuple(wheels[name].digest for name, _ in pins)


def _unmet(at: int, row: WheelRow, wheels: Mapping[str, WheelRow]) -> Iterator[Problem]:
    """Yield a problem for each dependency of a wheel that would not be there."""
    for text in json.loads(row.requires):
        needed = Requirement(text)
        name = str(canonicalize_name(needed.name))
        there = wheels[name].version if name in wheels else _installed(name)
        if there is None or not needed.specifier.contains(there, prereleases=True):
            here = "is not" if there is None else f"is as {there}"
            yield _requirement_problem(
                at,
                "dependency-missing",
                f"{row.name} depends on {quoted(text)}, which {here} among the requirements or on the hosts",
                "send a wheel of it and name that here too, or have an operator install it on the hosts",
            )


def _installed(name: str) -> str | None:
    """The version of an installed package. Hosts have the same packages as the manager."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _requirement_problem(at: int, code: str, message: str, remedy: str) -> Problem:
    return Problem(pointer=pointer("code", "requirements", at), code=code, message=message, remedy=remedy)


_OPERATORS = ""
"""The owner of what operators send."""


class Wheels(Base):
    """The wheels of each owner: one for a version of a package, which never changes."""

    def put(self, caller: Caller, digest: str, content: bytes) -> WheelAnswer:
        """Keep a wheel for the code that the caller publishes. Nothing of it is run. Idempotent."""
        begun = time.monotonic()
        if (actual := sha256(content).hexdigest()) != digest:
            raise InvalidWheel([_problem("wrong-digest", f"the digest of the wheel is {actual}", "send it under that")])
        try:
            wheel = read_wheel(content)
        except UnfitWheel as error:
            raise InvalidWheel([_problem(error.code, error.message, error.remedy)]) from error
        owner = caller.tenant or _OPERATORS
        with self._store.write() as session:
            if caller.tenant is not None and not session.get_one(TenantRow, caller.tenant).publishes:
                raise Forbidden("wheels are for code, which you may not publish; ask an operator")
            wanted = select(WheelRow).where(col(WheelRow.owner) == owner, col(WheelRow.name) == wheel.name)
            row = session.exec(wanted.where(col(WheelRow.version) == wheel.version)).one_or_none()
            if row is not None and row.digest != digest:
                raise Conflict(
                    f"{wheel.name} {wheel.version} is here as another file, {row.digest}, and a version never changes; "
                    "use that one, or remove it if no module requires it"
                )
            if row is None and caller.tenant is not None:
                _check_quota(session, caller.tenant, len(content))
            # Even if it is here: its file may have been damaged.
            self._wheels.put(content)
            if row is None:
                row = WheelRow(
                    owner=owner,
                    name=wheel.name,
                    version=wheel.version,
                    digest=digest,
                    bytes=len(content),
                    requires=json.dumps(wheel.requires),
                    sent=time.time(),
                )
                session.add(row)
                _note(session, OperationKind.PUT_WHEEL, caller, row, f"{row.name}=={row.version}", begun)
        return _wheel_answer(row)

    def page(self, caller: Caller, paging: Paging, *, tenant: str | None = None) -> Page[WheelAnswer]:
        """The caller's wheels, or all of them for an operator who names no tenant, in the order in which they came."""
        wanted = select(WheelRow).where(col(WheelRow.number) > paging.after_number).order_by(col(WheelRow.number))
        if caller.tenant is not None or tenant is not None:
            wanted = wanted.where(col(WheelRow.owner) == tenant_of(caller, tenant))
        with self._store.read() as session:
            rows = session.exec(wanted.limit(paging.limit + 1)).all()
        return paged(rows, paging.limit, cursor=lambda row: row.number, answer=_wheel_answer)

    def remove(self, caller: Caller, digest: str, *, tenant: str | None = None) -> WheelAnswer:
        """Keep a wheel no longer that no module requires; an operator's own, if it names no tenant."""
        begun = time.monotonic()
        owner = _OPERATORS if caller.tenant is None and tenant is None else tenant_of(caller, tenant)
        with self._store.write() as session:
            wanted = select(WheelRow).where(col(WheelRow.owner) == owner, col(WheelRow.digest) == digest)
            if (row := session.exec(wanted).one_or_none()) is None:
                raise NotFound("wheel", digest)
            holds = select(ModuleRow).where(col(ModuleRow.owner) == owner, col(ModuleRow.wheels).contains(digest))
            if (module := session.exec(holds.limit(1)).first()) is not None:
                raise Conflict(f"{module.name}@{module.version} requires {row.name} {row.version}, so it stays")
            session.delete(row)
            _note(session, OperationKind.REMOVE_WHEEL, caller, row, f"{row.name}=={row.version}", begun)
        with self._store.write() as session:
            # Only now, so that no wheel is listed without its file; and nobody sends it meanwhile.
            if session.exec(select(WheelRow.number).where(col(WheelRow.digest) == digest).limit(1)).first() is None:
                self._wheels.remove(digest)
        return _wheel_answer(row)

    @property
    def _wheels(self) -> WheelStore:
        if (wheels := self._tools.wheels) is None:
            raise StateNotReady("this manager has no root to keep wheels in; ask one that has")
        return wheels


def _check_quota(session: Session, tenant: str, more: int) -> None:
    allowed = session.get_one(TenantRow, tenant).wheel_bytes
    used = session.exec(select(func.coalesce(func.sum(WheelRow.bytes), 0)).where(col(WheelRow.owner) == tenant)).one()
    if used + more > allowed:
        raise QuotaExceeded(
            f"tenant {tenant!r} has wheels of {used:,} bytes, and may have {allowed:,}; this one has {more:,}: remove "
            "some that no module requires, or ask for more"
        )


def _problem(code: str, message: str, remedy: str) -> Problem:
    return Problem(pointer="", code=code, message=message, remedy=remedy)


def _wheel_answer(row: WheelRow) -> WheelAnswer:
    changed = {"owner": row.owner or None, "requires": json.loads(row.requires)}
    return WheelAnswer.model_validate(row.model_dump() | changed)


def _note(  # noqa: PLR0913, PLR0917 - who did what, when, and with what
    session: Session, kind: OperationKind, caller: Caller, row: WheelRow | ModuleRow, subject: str, begun: float
) -> None:
    note(session, kind, caller, subject, begun, f"of {row.owner}" if row.owner and caller.tenant is None else "")


_AT_ONCE = 100
"""Rows that a filter reads at a time."""


class Modules(Base):
    """The repository of modules. A version never changes."""

    def publish(self, caller: Caller, raw: bytes) -> ModuleDetail:
        """Publish a version: an operator for everybody, a tenant for itself. Idempotent."""
        begun = time.monotonic()
        try:
            module = read_module(raw, self._tools.catalogue)
        except InvalidDocument as error:
            raise InvalidModule(error.problems) from error
        owner = caller.tenant or _OPERATORS
        with self._store.write() as session:
            row = _row(session, owner, module.form.name, module.form.version)
            if row is not None and _written(module.form) != _written(_form(row)):
                raise Conflict(f"{module.name} is published with another text, and a version never changes; raise it")
            if row is None:
                _check_allowed(session, caller, module)
            wheels: tuple[str, ...] = ()
            if module.form.code is not None:
                # Before anything is kept; a version that is there has its wheels already.
                wheels = wheels_for(session, owner, module.form.code.requirements) if row is None else ()
                self._tools.keep_source(source_digest(module.form.code), module.form.code.source)
            if row is None:
                row = ModuleRow(
                    owner=owner,
                    name=module.form.name,
                    version=module.form.version,
                    form=raw.decode(),
                    digest=None if module.form.code is None else source_digest(module.form.code),
                    wheels=json.dumps(wheels) if wheels else None,
                    published=time.time(),
                )
                session.add(row)
                _note(session, OperationKind.PUBLISH, caller, row, f"{row.name}@{row.version}", begun)
        return _detail(row)

    def page(  # noqa: PLR0913 - each is a filter
        self,
        caller: Caller,
        paging: Paging,
        *,
        tenant: str | None = None,
        name: str | None = None,
        shape: ModuleShape | None = None,
        tag: str | None = None,
        deprecated: bool | None = None,
    ) -> Page[ModuleAnswer]:
        """The versions that the caller may use, in the order of publication; all of them for an operator."""
        wanted = _visible(caller).where(col(ModuleRow.number) > paging.after_number)
        if tenant is not None:
            wanted = wanted.where(col(ModuleRow.owner) == tenant_of(caller, tenant))
        if name is not None:
            wanted = wanted.where(col(ModuleRow.name) == name)
        if deprecated is not None:
            wanted = wanted.where(col(ModuleRow.deprecated).is_not(None) == deprecated)
        wanted = wanted.order_by(col(ModuleRow.number)).execution_options(yield_per=_AT_ONCE)
        with self._store.read() as session:
            fitting = (row for row in session.exec(wanted) if _fits(_form(row), shape, tag))
            rows = list(islice(fitting, paging.limit + 1))
        return paged(rows, paging.limit, cursor=lambda row: row.number, answer=_module_answer)

    def versions(self, caller: Caller, name: str, paging: Paging, *, tenant: str | None = None) -> Page[ModuleAnswer]:
        """All versions of a module, oldest first."""
        wanted = _named(caller, tenant).where(col(ModuleRow.name) == name)
        part = wanted.where(col(ModuleRow.version) > paging.after_number).order_by(col(ModuleRow.version))
        with self._store.read() as session:
            rows = session.exec(part.limit(paging.limit + 1)).all()
            if not rows and session.exec(wanted.limit(1)).first() is None:
                raise NotFound("module", name)
        return paged(rows, paging.limit, cursor=lambda row: row.version, answer=_module_answer)

    def get(self, caller: Caller, name: str, version: int, *, tenant: str | None = None) -> ModuleDetail:
        """One version, with its form as it was published."""
        with self._store.read() as session:
            return _detail(_found(session, caller, name, version, tenant))

    def deprecate(self, caller: Caller, name: str, version: int, *, tenant: str | None = None) -> ModuleAnswer:
        """Deprecate a version: only pipelines that name it or hold it use it from now on."""
        begun = time.monotonic()
        with self._store.write() as session:
            row = _found(session, caller, name, version, tenant)
            if caller.tenant not in {None, row.owner}:
                raise Forbidden(f"the module {name!r} is an operator's; ask one")
            if row.deprecated is None:
                row.deprecated = time.time()
                _note(session, OperationKind.DEPRECATE, caller, row, f"{row.name}@{row.version}", begun)
        return _module_answer(row)

    def vouch(self, caller: Caller, name: str, version: int, *, tenant: str | None = None) -> ModuleAnswer:
        """Answer for a version of a tenant's code, so that it may run beside other tasks; operators only."""
        return self._set_vouched(caller, name, version, tenant, vouched=True)

    def withdraw(self, caller: Caller, name: str, version: int, *, tenant: str | None = None) -> ModuleAnswer:
        """Answer for a version no longer; operators only."""
        return self._set_vouched(caller, name, version, tenant, vouched=False)

    def _set_vouched(
        self, caller: Caller, name: str, version: int, tenant: str | None, *, vouched: bool
    ) -> ModuleAnswer:
        operators_only(caller)
        # Operators answer for their own modules by publishing them.
        owner = tenant_of(caller, tenant)
        begun = time.monotonic()
        with self._store.write() as session:
            row = _found(session, caller, name, version, owner)
            if row.digest is None:
                raise Conflict(f"{name}@{version} is no code, so there is nothing to vouch for")
            if (row.vouched is not None) != vouched:
                row.vouched = time.time() if vouched else None
                _note(
                    session,
                    OperationKind.VOUCH if vouched else OperationKind.WITHDRAW,
                    caller,
                    row,
                    f"{row.name}@{row.version}",
                    begun,
                )
        # Even if nothing changed: an earlier request may have failed here.
        self._tools.vouchers_changed()
        return _module_answer(row)


def _check_allowed(session: Session, caller: Caller, module: Module) -> None:
    """Refuse a new version that a tenant may not publish."""
    if caller.tenant is None:
        return
    if module.form.code is not None and not session.get_one(TenantRow, caller.tenant).publishes:
        raise Forbidden(
            "code is published by operators, and by tenants that an operator allows; ask one, or use an installed type"
        )
    owned = select(func.count()).select_from(ModuleRow).where(col(ModuleRow.owner) == caller.tenant)
    check_another(session, caller.tenant, Holding.MODULES, session.exec(owned).one())
    name = module.form.name
    taken = select(ModuleRow.number).where(col(ModuleRow.owner) == _OPERATORS, col(ModuleRow.name) == name)
    if session.exec(taken.limit(1)).first() is not None:
        raise Conflict(f"operators publish a module {name!r}; choose another name")


def _visible(caller: Caller) -> SelectOfScalar[ModuleRow]:
    return select(ModuleRow) if caller.tenant is None else visible_to(caller.tenant)


def _named(caller: Caller, tenant: str | None) -> SelectOfScalar[ModuleRow]:
    """Select what a name may mean: for a tenant what it may use, for an operator the operators' or one tenant's."""
    if caller.tenant is not None:
        return visible_to(tenant_of(caller, tenant))
    return select(ModuleRow).where(col(ModuleRow.owner) == (tenant or _OPERATORS))


def _found(session: Session, caller: Caller, name: str, version: int, tenant: str | None) -> ModuleRow:
    wanted = _named(caller, tenant).where(col(ModuleRow.name) == name, col(ModuleRow.version) == version)
    if (row := session.exec(wanted).one_or_none()) is None:
        raise NotFound("module", f"{name}@{version}")
    return row


def _row(session: Session, owner: str, name: str, version: int) -> ModuleRow | None:
    wanted = select(ModuleRow).where(col(ModuleRow.owner) == owner, col(ModuleRow.name) == name)
    return session.exec(wanted.where(col(ModuleRow.version) == version)).one_or_none()


def _form(row: ModuleRow) -> ModuleForm:
    return ModuleForm.model_validate_json(row.form)


def _written(form: ModuleForm) -> str:
    """The text of a form, without the choices that JSON leaves."""
    return json.dumps(form.model_dump(mode="json"), sort_keys=True)


def _fits(form: ModuleForm, shape: ModuleShape | None, tag: str | None) -> bool:
    return shape in {None, form.shape} and (tag is None or tag in form.tags)


def _module_answer(row: ModuleRow) -> ModuleAnswer:
    form = _form(row)
    return ModuleAnswer(
        **row.model_dump(include={"name", "version", "published", "deprecated"}),
        **form.model_dump(include={"summary", "shape", "tags", "cost", "quality"}),
        owner=row.owner or None,
        type=type_of(form),
        vouched=is_vouched(row),
    )


def _detail(row: ModuleRow) -> ModuleDetail:
    return ModuleDetail(**dict(_module_answer(row)), form=json.loads(row.form))
