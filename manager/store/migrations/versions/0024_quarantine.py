"""The last stop of a tenant's tasks, and the end of its quarantine."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both."""
    op.add_column("tenant", sa.Column("stopped_at", sa.Float(), nullable=True))
    op.add_column("tenant", sa.Column("quarantined_until", sa.Float(), nullable=True))


def downgrade() -> None:
    """Drop both."""
    op.drop_column("tenant", "quarantined_until")
    op.drop_column("tenant", "stopped_at")
