"""The quota of dataflows that begin at the earliest events, and an index of idempotency keys by age."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both."""
    op.add_column("tenant", sa.Column("from_earliest", sa.Integer(), nullable=False, server_default="20"))
    op.create_index("ix_idempotency_age", "idempotency", ["tenant", "at"])


def downgrade() -> None:
    """Drop both."""
    op.drop_index("ix_idempotency_age", "idempotency")
    op.drop_column("tenant", "from_earliest")
