"""When the service added a machine by itself."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; all machines that are known were started by operators."""
    op.add_column("machine", sa.Column("added", sa.Float(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("machine", "added")
