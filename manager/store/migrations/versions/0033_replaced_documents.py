"""Replaced documents: the last few that each dataflow had."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "replaced_document",
        sa.Column("dataflow", sa.String(), primary_key=True),
        sa.Column("tag", sa.String(), primary_key=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
    )


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("replaced_document")
