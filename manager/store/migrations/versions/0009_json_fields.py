"""which fields that reach a running task hold JSON."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Have a place for them."""
    op.add_column("running_task", sa.Column("json_fields", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Forget them."""
    op.drop_column("running_task", "json_fields")
