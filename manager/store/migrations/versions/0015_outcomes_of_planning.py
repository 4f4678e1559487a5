"""Modules that failed in pipelines and what came of it, and why a pipeline was not planned anew."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("dataflow", sa.Column("given_up", sa.JSON(), nullable=True))
    op.add_column("dataflow", sa.Column("unplanned", sa.Text(), nullable=False, server_default=sa.text("''")))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("dataflow", "unplanned")
    op.drop_column("dataflow", "given_up")
