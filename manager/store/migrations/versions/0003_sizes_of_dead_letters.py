"""sizes of dead letters, so that they are bounded in bytes too."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Note how large each one is, and have both found by instance without reading what they hold."""
    op.add_column("dead_letter", sa.Column("size", sa.BigInteger(), nullable=False, server_default="0"))
    letter = sa.table(
        "dead_letter",
        sa.column("reason", sa.Text()),
        sa.column("events", sa.JSON()),
        sa.column("size", sa.BigInteger()),
    )
    written = sa.func.length(sa.cast(letter.c.events, sa.Text())) + sa.func.length(letter.c.reason)
    op.execute(letter.update().values(size=written))
    op.drop_index("ix_dead_letter_instance", "dead_letter")
    op.create_index("ix_dead_letter_instance", "dead_letter", ["instance", "id", "size"])


def downgrade() -> None:
    """Forget it."""
    op.drop_index("ix_dead_letter_instance", "dead_letter")
    op.create_index("ix_dead_letter_instance", "dead_letter", ["instance", "id"])
    op.drop_column("dead_letter", "size")
