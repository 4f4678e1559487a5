"""Budgets: the money a day that the dataflows with alternates of each tenant may cost."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("tenant", sa.Column("budget", sa.Integer(), nullable=False, server_default="1000000"))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("tenant", "budget")
