"""Modules: published, shown, deprecated and vouched for."""

import json
import time
from itertools import islice

from sqlmodel import Session, col, func, select
from sqlmodel.sql.expression import SelectOfScalar

from dags import InvalidDocument
from manager.answers import ModuleAnswer, ModuleDetail, OperationKind, Page
from manager.cases.base import Base, Caller, Paging, moment, operators_only, paged, tenant_of
from manager.problem import Conflict, Forbidden, InvalidModule, NotFound
from manager.store.tables import ModuleRow, OperationRow, TenantRow
from manager.submissions.published_modules import is_vouched, visible_to
from manager.submissions.quota import Holding, check_another
from manager.submissions.requirements import wheels_for
from planning.forms.module_form import ModuleForm
from planning.pipelines.module import Module, read_module, source_digest, type_of
from planning.shape import ModuleShape

_OPERATORS = ""
"""The owner of what operators publish."""
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
                row = _new_row(owner, module.form, raw)
                row.wheels = json.dumps(wheels) if wheels else None
                session.add(row)
                _note(session, OperationKind.PUBLISH, caller, row, begun)
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
        return paged(rows, paging.limit, cursor=lambda row: row.number, answer=_answer)

    def versions(self, caller: Caller, name: str, paging: Paging, *, tenant: str | None = None) -> Page[ModuleAnswer]:
        """All versions of a module, oldest first."""
        wanted = _named(caller, tenant).where(col(ModuleRow.name) == name)
        part = wanted.where(col(ModuleRow.version) > paging.after_number).order_by(col(ModuleRow.version))
        with self._store.read() as session:
            rows = session.exec(part.limit(paging.limit + 1)).all()
            if not rows and session.exec(wanted.limit(1)).first() is None:
                raise NotFound("module", name)
        return paged(rows, paging.limit, cursor=lambda row: row.version, answer=_answer)

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
                _note(session, OperationKind.DEPRECATE, caller, row, begun)
        return _answer(row)

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
                _note(session, OperationKind.VOUCH if vouched else OperationKind.WITHDRAW, caller, row, begun)
        # Even if nothing changed: an earlier request may have failed here.
        self._tools.vouchers_changed()
        return _answer(row)


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
    """What a name may mean: for a tenant what it may use, for an operator the operators' or those of one tenant."""
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


def _new_row(owner: str, form: ModuleForm, raw: bytes) -> ModuleRow:
    return ModuleRow(
        owner=owner,
        name=form.name,
        version=form.version,
        form=raw.decode(),
        digest=None if form.code is None else source_digest(form.code),
        published=time.time(),
    )


def _form(row: ModuleRow) -> ModuleForm:
    return ModuleForm.model_validate_json(row.form)


def _written(form: ModuleForm) -> str:
    """The text of a form, without the choices that JSON leaves."""
    return json.dumps(form.model_dump(mode="json"), sort_keys=True)


def _fits(form: ModuleForm, shape: ModuleShape | None, tag: str | None) -> bool:
    return shape in {None, form.shape} and (tag is None or tag in form.tags)


def _answer(row: ModuleRow) -> ModuleAnswer:
    form = _form(row)
    return ModuleAnswer(
        name=row.name,
        version=row.version,
        owner=row.owner or None,
        summary=form.summary,
        shape=form.shape,
        type=type_of(form),
        tags=tuple(form.tags),
        cost=form.cost,
        quality=form.quality,
        published=moment(row.published),
        deprecated=None if row.deprecated is None else moment(row.deprecated),
        vouched=is_vouched(row),
    )


def _detail(row: ModuleRow) -> ModuleDetail:
    return ModuleDetail(**dict(_answer(row)), form=json.loads(row.form))


def _note(session: Session, kind: OperationKind, caller: Caller, row: ModuleRow, begun: float) -> None:
    session.add(
        OperationRow(
            at=time.time(),
            kind=kind,
            who=caller.who,
            subject=f"{row.name}@{row.version}",
            seconds=time.monotonic() - begun,
            note=f"of {row.owner}" if row.owner and caller.tenant is None else "",
        )
    )
