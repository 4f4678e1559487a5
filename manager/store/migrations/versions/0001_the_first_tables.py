"""the first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables, and the one row of the leadership."""
    op.create_table(
        "api_key",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=True),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("revoked", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_api_key_tenant", "api_key", ["tenant"])

    op.create_table(
        "broker_credential",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("tenant"),
    )
    op.create_table(
        "dataflow",
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("submitted", sa.Float(), nullable=False),
        sa.Column("removed", sa.Float(), nullable=True),
        sa.Column("draining", sa.Float(), nullable=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("task_ids", sa.JSON(), nullable=False),
        sa.Column("instances", sa.JSON(), nullable=False),
        sa.Column("started", sa.JSON(), nullable=False),
        sa.Column("sinks", sa.JSON(), nullable=False),
        sa.Column("parts", sa.JSON(), nullable=False),
        sa.Column("sources", sa.JSON(), nullable=False),
        sa.Column("epochs", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("ix_dataflow_name", "dataflow", ["name"])
    op.create_index("ix_dataflow_removed", "dataflow", ["removed"])
    op.create_index("ix_dataflow_usage", "dataflow", ["tenant", "removed", "tasks"])

    op.create_table(
        "dead_letter",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("instance", sa.BigInteger(), nullable=False),
        sa.Column("port", sa.String(), nullable=False),
        sa.Column("batch", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_dead_letter_instance", "dead_letter", ["instance", "id"])

    op.create_table(
        "dead_letter_drop",
        sa.Column("instance", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("instance"),
    )
    op.create_table(
        "dead_letter_reader",
        sa.Column("letter", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("dataflows", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("letter", "tenant"),
    )
    op.create_index("ix_dead_letter_reader_tenant", "dead_letter_reader", ["tenant", "letter"])

    op.create_table(
        "idempotency",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("dataflow", sa.String(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key"),
    )
    op.create_table(
        "job",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("stopped", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "leadership",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("leader", sa.String(), nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.Float(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("next_instance", sa.BigInteger(), nullable=False),
        sa.Column("next_job", sa.Integer(), nullable=False),
        sa.Column("service", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "operation",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("started", sa.Integer(), nullable=False),
        sa.Column("reused", sa.Integer(), nullable=False),
        sa.Column("paused", sa.Integer(), nullable=False),
        sa.Column("jobs_started", sa.JSON(), nullable=False),
        sa.Column("jobs_stopped", sa.JSON(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_operation_subject", "operation", ["subject"])
    op.create_index("ix_operation_who_at", "operation", ["who", "at"])

    op.create_table(
        "running_task",
        sa.Column("instance", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.Column("scope_dataflow", sa.String(), nullable=True),
        sa.Column("scope_task", sa.String(), nullable=True),
        sa.Column("text", sa.LargeBinary(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("inputs", sa.JSON(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("job", sa.Integer(), nullable=False),
        sa.Column("busy", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("instance"),
    )
    op.create_index("ix_running_task_job", "running_task", ["job"])

    op.create_table(
        "source",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("connection", sa.JSON(), nullable=False),
        sa.Column("fields", sa.JSON(), nullable=False),
        sa.Column("visibility", sa.String(), nullable=False),
        sa.Column("readers", sa.JSON(), nullable=False),
        sa.Column("registered", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_source_owner", "source", ["owner"])

    op.create_table(
        "tenant",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("dataflows", sa.Integer(), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("submits_per_minute", sa.Integer(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.execute("INSERT INTO leadership VALUES (1, '', 0, 0, 0, 1, 1, '')")


def downgrade() -> None:
    """Remove all of it."""
    for table in (
        "api_key",
        "broker_credential",
        "dataflow",
        "dead_letter",
        "dead_letter_drop",
        "dead_letter_reader",
        "idempotency",
        "job",
        "leadership",
        "operation",
        "running_task",
        "source",
        "tenant",
    ):
        op.drop_table(table)
