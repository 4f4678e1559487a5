"""modules, and the pipelines that were planned of them."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table and the columns."""
    op.create_table(
        "module",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(), nullable=True),
        sa.Column("published", sa.Float(), nullable=False),
        sa.Column("deprecated", sa.Float(), nullable=True),
        sa.Column("vouched", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("ux_module_version", "module", ["owner", "name", "version"], unique=True)
    op.add_column("dataflow", sa.Column("pipeline", sa.Text(), nullable=True))
    op.add_column("tenant", sa.Column("publishes", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("tenant", "publishes")
    op.drop_column("dataflow", "pipeline")
    op.drop_table("module")
