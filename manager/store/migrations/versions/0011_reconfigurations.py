"""reconfigurations, and the histories that tasks have of their own since."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables and the column."""
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
    op.add_column("dataflow", sa.Column("histories", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Drop the tables and the column."""
    op.drop_column("dataflow", "histories")
    op.drop_table("reconfigured")
    op.drop_table("reconfiguration")
