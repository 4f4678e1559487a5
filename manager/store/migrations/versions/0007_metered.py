"""what everything took, who pays for it, and what separate execution would have taken."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Have a place for it, by minutes and hours."""
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


def downgrade() -> None:
    """Forget all of it."""
    op.drop_table("metered_tenant")
    op.drop_table("metered")
