"""replays of dead letters, where dataflows start, and since when tenants may read sources."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Remember what was replayed, where dataflows began, and since when tenants may read sources."""
    op.create_table(
        "dead_letter_replay",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("letter", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.add_column("dataflow", sa.Column("start", sa.String(), nullable=False, server_default="latest"))
    op.add_column("source", sa.Column("granted", sa.JSON(), nullable=True))
    op.add_column("source", sa.Column("opened", sa.Float(), nullable=True))
    _grant_since_registered()


def downgrade() -> None:
    """Forget all of it."""
    op.drop_table("dead_letter_replay")
    for table, column in (("dataflow", "start"), ("source", "granted"), ("source", "opened")):
        op.drop_column(table, column)


def _grant_since_registered() -> None:
    """Grants have no known time yet; tasks that are shared already stay shared."""
    source = sa.table(
        "source",
        sa.column("id", sa.Integer()),
        sa.column("visibility", sa.String()),
        sa.column("readers", sa.JSON()),
        sa.column("registered", sa.Float()),
        sa.column("granted", sa.JSON()),
        sa.column("opened", sa.Float()),
    )
    connection = op.get_bind()
    for row in connection.execute(sa.select(source)).all():
        granted = dict.fromkeys(row.readers, row.registered) if row.visibility == "named" else {}
        opened = row.registered if row.visibility == "public" else None
        change = source.update().where(source.c.id == row.id)
        connection.execute(change.values(granted=granted, opened=opened))
