"""dead letters that are replayed are kept until their jobs have taken them."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Have those that are under way found by the letter."""
    op.create_index("ix_dead_letter_replay_letter", "dead_letter_replay", ["letter"])


def downgrade() -> None:
    """Have those under way gone, as an earlier Braid has it."""
    op.execute("DELETE FROM dead_letter_reader WHERE letter IN (SELECT letter FROM dead_letter_replay)")
    op.execute("DELETE FROM dead_letter WHERE id IN (SELECT letter FROM dead_letter_replay)")
    op.drop_index("ix_dead_letter_replay_letter", "dead_letter_replay")
