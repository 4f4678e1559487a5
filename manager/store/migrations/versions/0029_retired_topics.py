"""Topics on which outputs retained messages that are to be cleared."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "retired_topic",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("dataflow", sa.String(), nullable=False),
        sa.Column("sink", sa.String(), nullable=False),
        sa.Column("topic", sa.String(), nullable=False),
        sa.Column("job", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("retired_topic")
