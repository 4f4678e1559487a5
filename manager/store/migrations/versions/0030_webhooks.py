"""Webhooks of sources, and the deliveries that they have taken."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "webhook",
        sa.Column("token", sa.String(), primary_key=True),
        sa.Column("source", sa.String(), nullable=False, unique=True),
        sa.Column("form", sa.JSON(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("former", sa.Text(), nullable=True),
        sa.Column("former_until", sa.Float(), nullable=True),
        sa.Column("made", sa.Float(), nullable=False),
    )
    op.create_table(
        "webhook_delivery",
        sa.Column("token", sa.String(), primary_key=True),
        sa.Column("delivery", sa.String(), primary_key=True),
        sa.Column("at", sa.Float(), nullable=False),
    )


def downgrade() -> None:
    """Remove the tables."""
    op.drop_table("webhook_delivery")
    op.drop_table("webhook")
