"""Who carries which host, and the machines."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "carriage",
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("machine", sa.String(), nullable=False),
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
        "machine",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=True),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("machine")
    op.drop_table("carriage")
