"""The place of each host on the ring: that of the machine of its name."""

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; a host whose machine has no place gets one by its name."""
    op.add_column("carriage", sa.Column("point", sa.BigInteger(), nullable=True))
    connection = op.get_bind()
    tokens = {row.name: row.token for row in connection.execute(sa.text("SELECT name, token FROM machine"))}
    for (host,) in connection.execute(sa.text("SELECT host FROM carriage")).all():
        token = tokens.get(host)
        point = int.from_bytes(hashlib.sha256(host.encode()).digest()[:4], "big") if token is None else token
        given = sa.text("UPDATE carriage SET point = :point WHERE host = :host")
        connection.execute(given, {"point": point, "host": host})
    with op.batch_alter_table("carriage") as table:
        table.alter_column("point", existing_type=sa.BigInteger(), nullable=False)


def downgrade() -> None:
    """Drop it."""
    op.drop_column("carriage", "point")
