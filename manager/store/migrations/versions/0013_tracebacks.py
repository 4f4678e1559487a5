"""tracebacks of published code, for its owners."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("dead_letter", sa.Column("owner", sa.Text(), nullable=True))
    op.add_column("dead_letter", sa.Column("traceback", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("dead_letter", "traceback")
    op.drop_column("dead_letter", "owner")
