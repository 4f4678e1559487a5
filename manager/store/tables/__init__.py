"""The tables of the database, by subject. Importing this package registers all of them.

Times are seconds since 1970 in UTC, because SQLite has no time zones.
"""

from manager.store.tables.carriages import CarriageRow, MachineRow
from manager.store.tables.columns import table_of
from manager.store.tables.costs import LearntRow, MeteredRow, MeteredTenantRow
from manager.store.tables.dataflows import DataflowRow, IdempotencyRow, JobRow, MoveRow, TaskRow
from manager.store.tables.dead_letters import DeadLetterDropRow, DeadLetterReaderRow, DeadLetterReplayRow, DeadLetterRow
from manager.store.tables.images import ImageRow
from manager.store.tables.journal import OperationRow
from manager.store.tables.leadership import Leadership
from manager.store.tables.modules import ModuleRow
from manager.store.tables.reconfigurations import ReconfigurationRow, ReconfiguredRow
from manager.store.tables.sources import SourceRow
from manager.store.tables.tenants import CredentialRow, KeyRow, SessionRow, TenantRow
from manager.store.tables.wheels import WheelRow

__all__ = [
    "CarriageRow",
    "CredentialRow",
    "DataflowRow",
    "DeadLetterDropRow",
    "DeadLetterReaderRow",
    "DeadLetterReplayRow",
    "DeadLetterRow",
    "IdempotencyRow",
    "ImageRow",
    "JobRow",
    "KeyRow",
    "Leadership",
    "LearntRow",
    "MachineRow",
    "MeteredRow",
    "MeteredTenantRow",
    "ModuleRow",
    "MoveRow",
    "OperationRow",
    "ReconfigurationRow",
    "ReconfiguredRow",
    "SessionRow",
    "SourceRow",
    "TaskRow",
    "TenantRow",
    "WheelRow",
    "table_of",
]
