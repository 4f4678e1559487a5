"""Images, and the tags that hosts must offer for running tasks."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and the table."""
    op.add_column("running_task", sa.Column("tags", sa.JSON(), nullable=True))
    op.create_table(
        "image",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("cores", sa.Float(), nullable=False),
        sa.Column("start", sa.Float(), nullable=False),
        sa.Column("price", sa.Float(), nullable=False),
        sa.Column("most", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("image")
    op.drop_column("running_task", "tags")
