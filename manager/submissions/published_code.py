"""The code that a tenant may run: that of modules which are visible to it, as they were published."""

from sqlmodel import col

from engine.tasks.code import CodeConfig, ConnectingCodeConfig
from manager.store.database import Store
from manager.store.tables import ModuleRow
from manager.submissions.code_check import Published
from manager.submissions.published_modules import visible_to, wheels_of
from planning.forms.module_form import ModuleForm
from planning.pipelines.module import targets_of


def published_in(store: Store) -> Published:
    """The check against the modules of a database."""

    def published(tenant: str, config: CodeConfig) -> bool:
        with store.read() as session:
            rows = session.exec(visible_to(tenant).where(col(ModuleRow.digest) == config.digest)).all()
        return any(_is_of(row, config) for row in rows)

    return published


def runs_already(_tenant: str, _config: CodeConfig) -> bool:
    """The check of what runs, and was checked before."""
    return True


def _is_of(row: ModuleRow, config: CodeConfig) -> bool:
    code = ModuleForm.model_validate_json(row.form).code
    return (
        code is not None
        and (config.entry, config.per) == (code.entry, code.per)
        and (config.owner, config.wheels) == (row.owner, wheels_of(row))
        and (list(config.connects) if isinstance(config, ConnectingCodeConfig) else []) == targets_of(code)
    )
