"""All tables of the first release."""

import sqlalchemy as sa
from alembic import op

revision = "0027"  # of the last of the steps in which they were made, so that databases of then go on
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
        "carriage",
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("machine", sa.String(), nullable=False),
        sa.Column("point", sa.BigInteger(), nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("heir", sa.String(), nullable=False),
        sa.Column("peers", sa.JSON(), nullable=False),
        sa.Column("roots", sa.JSON(), nullable=False),
        sa.Column("kept_by", sa.JSON(), nullable=False),
        sa.Column("root", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("host"),
    )
    op.create_table(
        "console_session",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("until", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("hash"),
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
        sa.Column("streams", sa.Integer(), server_default="0", nullable=False),
        sa.Column("task_ids", sa.JSON(), nullable=False),
        sa.Column("instances", sa.JSON(), nullable=False),
        sa.Column("started", sa.JSON(), nullable=False),
        sa.Column("sinks", sa.JSON(), nullable=False),
        sa.Column("parts", sa.JSON(), nullable=False),
        sa.Column("sources", sa.JSON(), nullable=False),
        sa.Column("epochs", sa.JSON(), nullable=False),
        sa.Column("start", sa.String(), server_default="latest", nullable=False),
        sa.Column("histories", sa.JSON(), nullable=True),
        sa.Column("pipeline", sa.Text(), nullable=True),
        sa.Column("dynamic", sa.Text(), nullable=True),
        sa.Column("policy", sa.Text(), nullable=True),
        sa.Column("pinned", sa.JSON(), nullable=True),
        sa.Column("given_up", sa.JSON(), nullable=True),
        sa.Column("unplanned", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("ix_dataflow_name", "dataflow", ["name"])
    op.create_index("ix_dataflow_removed", "dataflow", ["removed"])
    op.create_index("ix_dataflow_usage", "dataflow", ["tenant", "removed", "tasks", "streams"])
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
        sa.Column("size", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_dead_letter_instance", "dead_letter", ["instance", "id", "size"])
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
        "dead_letter_replay",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("letter", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("ix_dead_letter_replay_letter", "dead_letter_replay", ["letter"])
    op.create_table(
        "idempotency",
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("dataflow", sa.String(), nullable=False),
        sa.Column("reconfiguration", sa.Integer(), nullable=True),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key"),
    )
    op.create_index("ix_idempotency_age", "idempotency", ["tenant", "at"])
    op.create_table(
        "image",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("cores", sa.Float(), nullable=False),
        sa.Column("start", sa.Float(), nullable=False),
        sa.Column("price", sa.Float(), nullable=False),
        sa.Column("most", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
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
        "learnt",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("told", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "machine",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=True),
        sa.Column("key", sa.String(), server_default=sa.text("''"), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("added", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "metered",
        sa.Column("span", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("term", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("cpu", sa.JSON(), nullable=False),
        sa.Column("overhead", sa.BigInteger(), nullable=False),
        sa.Column("launched", sa.JSON(), nullable=False),
        sa.Column("packed", sa.JSON(), nullable=False),
        sa.Column("work", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("work_alone", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("span", "at", "term"),
    )
    op.create_table(
        "metered_tenant",
        sa.Column("span", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("term", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("took", sa.JSON(), nullable=False),
        sa.Column("dataflows", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("span", "at", "term", "tenant"),
    )
    op.create_table(
        "module",
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(), nullable=True),
        sa.Column("wheels", sa.Text(), nullable=True),
        sa.Column("published", sa.Float(), nullable=False),
        sa.Column("deprecated", sa.Float(), nullable=True),
        sa.Column("vouched", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("ux_module_version", "module", ["owner", "name", "version"], unique=True)
    op.create_table(
        "move",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("begun", sa.Float(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("cut_at", sa.Float(), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("opens", sa.JSON(), nullable=False),
        sa.Column("passed", sa.JSON(), nullable=False),
        sa.Column("hindrance", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
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
        sa.Column("note", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_operation_subject", "operation", ["subject"])
    op.create_index("ix_operation_who_at", "operation", ["who", "at"])
    op.create_table(
        "reconfiguration",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("begun", sa.Float(), nullable=False),
        sa.Column("ended", sa.Float(), nullable=True),
        sa.Column("switched", sa.Float(), nullable=True),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("jobs", sa.JSON(), nullable=False),
        sa.Column("awaiting", sa.JSON(), nullable=False),
        sa.Column("sources", sa.JSON(), nullable=False),
        sa.Column("instances", sa.JSON(), nullable=False),
        sa.Column("changed", sa.JSON(), nullable=False),
        sa.Column("watched", sa.JSON(), nullable=False),
        sa.Column("undoes", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.Column("request", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_reconfiguration_ended", "reconfiguration", ["ended"])
    op.create_table(
        "reconfigured",
        sa.Column("reconfiguration", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("dataflow", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("reconfiguration", "dataflow"),
    )
    op.create_index("ix_reconfigured_dataflow", "reconfigured", ["dataflow", "reconfiguration"])
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
        sa.Column("json_fields", sa.JSON(), nullable=True),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("tags", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("job", sa.Integer(), nullable=False),
        sa.Column("busy", sa.Float(), nullable=False),
        sa.Column("moves", sa.Integer(), server_default="0", nullable=False),
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
        sa.Column("granted", sa.JSON(), nullable=True),
        sa.Column("opened", sa.Float(), nullable=True),
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
        sa.Column("streams", sa.Integer(), server_default="100000", nullable=False),
        sa.Column("submits_per_minute", sa.Integer(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("publishes", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("wheel_bytes", sa.Integer(), server_default="67108864", nullable=False),
        sa.Column("sources", sa.Integer(), server_default="200", nullable=False),
        sa.Column("secrets", sa.Integer(), server_default="200", nullable=False),
        sa.Column("modules", sa.Integer(), server_default="1000", nullable=False),
        sa.Column("keys", sa.Integer(), server_default="100", nullable=False),
        sa.Column("requests_per_minute", sa.Integer(), server_default="6000", nullable=False),
        sa.Column("from_earliest", sa.Integer(), server_default="20", nullable=False),
        sa.Column("state_mb", sa.Integer(), server_default="4000", nullable=False),
        sa.Column("stopped_at", sa.Float(), nullable=True),
        sa.Column("quarantined_until", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "wheel",
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("requires", sa.Text(), nullable=False),
        sa.Column("sent", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("ix_wheel_digest", "wheel", ["digest"])
    op.create_index("ux_wheel_version", "wheel", ["owner", "name", "version"], unique=True)
    op.execute(
        "INSERT INTO leadership (id, leader, term, until, version, next_instance, next_job, service)"
        " VALUES (1, '', 0, 0, 0, 1, 1, '')"
    )


def downgrade() -> None:
    """Remove all of them."""
    for table in (
        "api_key",
        "broker_credential",
        "carriage",
        "console_session",
        "dataflow",
        "dead_letter",
        "dead_letter_drop",
        "dead_letter_reader",
        "dead_letter_replay",
        "idempotency",
        "image",
        "job",
        "leadership",
        "learnt",
        "machine",
        "metered",
        "metered_tenant",
        "module",
        "move",
        "operation",
        "reconfiguration",
        "reconfigured",
        "running_task",
        "source",
        "tenant",
        "wheel",
    ):
        op.drop_table(table)
