"""How the sinks of dataflows are delivered."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; what is there is delivered as always."""
    op.add_column("dataflow", sa.Column("outputs", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("dataflow", "outputs")
