"""All tables of the first release."""

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0027"  # of the last of the steps in which they were made, so that databases of then go on
down_revision = None
branch_labels = None
depends_on = None

_TYPES: dict[str | None, Any] = {
    None: sa.String(),
    "text": sa.Text(),
    "int": sa.Integer(),
    "serial": sa.Integer(),
    "big": sa.BigInteger(),
    "number": sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
    "float": sa.Float(),
    "bool": sa.Boolean(),
    "bytes": sa.LargeBinary(),
    "json": sa.JSON(),
}
_TABLES = {
    "api_key": "*id hash role tenant? note created:float revoked:float?",
    "broker_credential": "*tenant hash created:float",
    "carriage": "*host machine point:big term:big version:big heir peers:json roots:json kept_by:json root",
    "console_session": "*hash key until:float",
    "dataflow": (
        "*number:number id! tenant name revision:int submitted:float removed:float? draining:float? document:text "
        "tasks:int streams:int=0 task_ids:json instances:json started:json sinks:json parts:json sources:json "
        "epochs:json start=latest histories:json? pipeline:text? dynamic:text? policy:text? pinned:json? "
        "given_up:json? unplanned:text="
    ),
    "dead_letter": (
        "*id:number at:float instance:big port batch:big reason:text events:json digest! size:big=0 owner:text? "
        "traceback:text?"
    ),
    "dead_letter_drop": "*instance:big count:big",
    "dead_letter_reader": "*letter:big *tenant dataflows:json",
    "dead_letter_replay": "*digest letter:big at:float",
    "idempotency": "*tenant *key digest dataflow reconfiguration:int? at:float",
    "image": "*name tags:json cores:float start:float price:float most:int?",
    "job": "*id:int host version:int plan:text stopped:bool",
    "leadership": "*id:serial leader term:big until:float version:big next_instance:big next_job:int service",
    "learnt": "*id:int at:float told:json",
    "machine": "*name token:big? key= draining:bool added:float?",
    "metered": (
        "*span:int *at:big *term:big seconds:float cpu:json overhead:big launched:json packed:json work:big=0 "
        "work_alone:big=0"
    ),
    "metered_tenant": "*span:int *at:big *term:big *tenant took:json dataflows:json",
    "module": (
        "*number:number owner name version:int form:text digest? wheels:text? published:float deprecated:float? "
        "vouched:float?"
    ),
    "move": (
        "*id:serial phase since:float begun:float who reason:text cut_at:float steps:json opens:json passed:json "
        "hindrance:text"
    ),
    "operation": (
        "*id:number at:float kind who subject started:int reused:int paused:int jobs_started:json jobs_stopped:json "
        "seconds:float note:text="
    ),
    "reconfiguration": (
        "*id:serial phase since:float begun:float ended:float? switched:float? who jobs:json awaiting:json "
        "sources:json instances:json changed:json watched:json undoes:int? outcome:text report:json request:text?"
    ),
    "reconfigured": "*reconfiguration:int *dataflow revision:int before:text after:text",
    "running_task": (
        "*instance:big signature:bytes scope_dataflow? scope_task? text:bytes type version:int inputs:json "
        "json_fields:json? since:float tags:json? job:int busy:float moves:int=0"
    ),
    "source": (
        "*id:serial name! owner connection:json fields:json visibility readers:json registered:float granted:json? "
        "opened:float?"
    ),
    "tenant": (
        "*name dataflows:int tasks:int streams:int=100000 submits_per_minute:int created:float publishes:bool=false "
        "wheel_bytes:int=67108864 sources:int=200 secrets:int=200 modules:int=1000 keys:int=100 "
        "requests_per_minute:int=6000 from_earliest:int=20 state_mb:int=4000 stopped_at:float? "
        "quarantined_until:float?"
    ),
    "wheel": "*number:number owner name version digest bytes:int requires:text sent:float",
}
"""Each column with its type, if that is no string; `*` for the key, `?` for what may be null, `!` for what is unique;
and with the default of the server."""
_NEVER_AGAIN = ("dead_letter", "move", "reconfiguration", "source")
"""The tables whose ids are never used again."""
_INDEXES = {
    "ix_api_key_tenant": ("api_key", ["tenant"]),
    "ix_dataflow_name": ("dataflow", ["name"]),
    "ix_dataflow_removed": ("dataflow", ["removed"]),
    "ix_dataflow_usage": ("dataflow", ["tenant", "removed", "tasks", "streams"]),
    "ix_dead_letter_instance": ("dead_letter", ["instance", "id", "size"]),
    "ix_dead_letter_reader_tenant": ("dead_letter_reader", ["tenant", "letter"]),
    "ix_dead_letter_replay_letter": ("dead_letter_replay", ["letter"]),
    "ix_idempotency_age": ("idempotency", ["tenant", "at"]),
    "ux_module_version": ("module", ["owner", "name", "version"]),
    "ix_operation_subject": ("operation", ["subject"]),
    "ix_operation_who_at": ("operation", ["who", "at"]),
    "ix_reconfiguration_ended": ("reconfiguration", ["ended"]),
    "ix_reconfigured_dataflow": ("reconfigured", ["dataflow", "reconfiguration"]),
    "ix_running_task_job": ("running_task", ["job"]),
    "ix_source_owner": ("source", ["owner"]),
    "ix_wheel_digest": ("wheel", ["digest"]),
    "ux_wheel_version": ("wheel", ["owner", "name", "version"]),
}


def upgrade() -> None:
    """Make the tables, and the one row of the leadership."""
    for table, columns in _TABLES.items():
        op.create_table(table, *map(_column, columns.split()), sqlite_autoincrement=table in _NEVER_AGAIN)
    for index, (table, keys) in _INDEXES.items():
        op.create_index(index, table, keys, unique=index.startswith("ux_"))
    op.execute(
        "INSERT INTO leadership (id, leader, term, until, version, next_instance, next_job, service)"
        " VALUES (1, '', 0, 0, 0, 1, 1, '')"
    )


def downgrade() -> None:
    """Remove all of them."""
    for table in _TABLES:
        op.drop_table(table)


def _column(text: str) -> sa.Column[Any]:
    parts = re.fullmatch(r"(\*?)(\w+)(?::(\w+))?([?!]?)(?:=(.*))?", text)
    assert parts is not None  # noqa: S101 - they are written above
    key, name, kind, mark, default = parts.groups()
    return sa.Column(
        name,
        _TYPES[kind],
        primary_key=bool(key),
        autoincrement="auto" if kind in {"serial", "number"} else False,
        nullable=mark == "?",
        unique=mark == "!" or None,
        server_default=sa.false() if default == "false" else default,
    )
