"""What was asked for of reconfigurations that wait, and their idempotency keys."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both."""
    op.add_column("reconfiguration", sa.Column("request", sa.Text(), nullable=True))
    op.add_column("idempotency", sa.Column("reconfiguration", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Drop both, and with them what waits."""
    op.execute("UPDATE reconfiguration SET phase = 'abandoned', ended = since WHERE phase = 'waiting'")
    op.drop_column("idempotency", "reconfiguration")
    op.drop_column("reconfiguration", "request")
