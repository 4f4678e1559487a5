"""moves of tasks from job to job, and why an operation was done."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Have a place for the move under way, for how often tasks moved, and for what the journal says of it."""
    op.create_table(
        "move",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("begun", sa.Float(), nullable=False),
        sa.Column("cut_at", sa.Float(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("opens", sa.JSON(), nullable=False),
        sa.Column("passed", sa.JSON(), nullable=False),
        sa.Column("hindrance", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.add_column("running_task", sa.Column("moves", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("operation", sa.Column("note", sa.Text(), nullable=False, server_default=sa.text("''")))


def downgrade() -> None:
    """Forget all of it."""
    op.drop_table("move")
    op.drop_column("running_task", "moves")
    op.drop_column("operation", "note")
