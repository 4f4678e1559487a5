"""When API keys expire and were used, sessions of people whom a provider knows, and callers in the journal."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_TEXTS = {"console_session": ("subject", "name"), "operation": ("caller", "caller_name", "address")}
"""The columns that are empty where nothing is known."""


def upgrade() -> None:
    """Add the columns; keys that there are do not expire."""
    for name in ("expires", "used"):
        op.add_column("api_key", sa.Column(name, sa.Float(), nullable=True))
    op.add_column("console_session", sa.Column("groups", sa.JSON(), nullable=True))
    for table, names in _TEXTS.items():
        for name in names:
            op.add_column(table, sa.Column(name, sa.Text(), nullable=False, server_default=sa.text("''")))


def downgrade() -> None:
    """Remove the columns, and the sessions that are of no key."""
    op.execute("DELETE FROM console_session WHERE key = ''")
    for table, names in reversed(_TEXTS.items()):
        for name in reversed(names):
            op.drop_column(table, name)
    op.drop_column("console_session", "groups")
    for name in ("used", "expires"):
        op.drop_column("api_key", name)
