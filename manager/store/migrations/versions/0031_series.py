"""Series: the figures of dataflows over time."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "series",
        sa.Column("step", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("dataflow", sa.String(), primary_key=True),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("events_in", sa.BigInteger(), nullable=False),
        sa.Column("events_out", sa.BigInteger(), nullable=False),
        sa.Column("dead", sa.BigInteger(), nullable=False),
        sa.Column("waiting", sa.BigInteger(), nullable=False),
        sa.Column("latency_p50", sa.Float(), nullable=True),
        sa.Column("latency_p99", sa.Float(), nullable=True),
        sa.Column("cores", sa.Float(), nullable=True),
        sa.Column("alone", sa.Float(), nullable=True),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("series")
