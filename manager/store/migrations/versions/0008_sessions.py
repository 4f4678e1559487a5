"""sessions of the console."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Have a place for them."""
    op.create_table(
        "console_session",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("until", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("hash"),
    )


def downgrade() -> None:
    """Sign everybody out."""
    op.drop_table("console_session")
