"""The keys by which admitted machines are known; those that are there already count as admitted."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; the first key that a machine shows is taken for its own."""
    op.add_column("machine", sa.Column("key", sa.String(), nullable=False, server_default=sa.text("''")))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("machine", "key")
