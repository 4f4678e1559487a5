"""wheels, and the modules that import from them."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table and the columns."""
    op.create_table(
        "wheel",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("requires", sa.Text(), nullable=False),
        sa.Column("sent", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("ux_wheel_version", "wheel", ["owner", "name", "version"], unique=True)
    op.create_index("ix_wheel_digest", "wheel", ["digest"])
    op.add_column("module", sa.Column("wheels", sa.Text(), nullable=True))
    op.add_column("tenant", sa.Column("wheel_bytes", sa.Integer(), server_default="67108864", nullable=False))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("tenant", "wheel_bytes")
    op.drop_column("module", "wheels")
    op.drop_table("wheel")
