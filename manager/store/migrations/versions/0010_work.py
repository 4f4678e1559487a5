"""the work of tasks, and what it would have been without sharing."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Have places for it; of what was metered before it is not known."""
    for name in ("work", "work_alone"):
        op.add_column("metered", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Forget it."""
    for name in ("work_alone", "work"):
        op.drop_column("metered", name)
