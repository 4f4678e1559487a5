"""The quota of a tenant's states."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it."""
    op.add_column("tenant", sa.Column("state_mb", sa.Integer(), nullable=False, server_default="4000"))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("tenant", "state_mb")
