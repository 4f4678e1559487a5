"""Dynamic documents, the policies that have replaced theirs, and what was chosen by hand."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    for name, kind in (("dynamic", sa.Text()), ("policy", sa.Text()), ("pinned", sa.JSON())):
        op.add_column("dataflow", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    """Drop them."""
    for name in ("pinned", "policy", "dynamic"):
        op.drop_column("dataflow", name)
