"""Quotas of sources, secrets, modules, API keys and requests."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_QUOTAS = {"sources": 200, "secrets": 200, "modules": 1_000, "keys": 100, "requests_per_minute": 6_000}


def upgrade() -> None:
    """Add the columns."""
    for name, default in _QUOTAS.items():
        op.add_column("tenant", sa.Column(name, sa.Integer(), nullable=False, server_default=str(default)))


def downgrade() -> None:
    """Drop them."""
    for name in reversed(_QUOTAS):
        op.drop_column("tenant", name)
