"""Machine classes and rentals: which machines can be had, and which the service has had."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables. Machines that the service added before are rentals of the class `added`, which nobody set yet."""
    op.create_table(
        "machine_class",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("cores", sa.Integer(), nullable=False),
        sa.Column("memory_gb", sa.Float(), nullable=True),
        sa.Column("price", sa.Float(), nullable=False),
        sa.Column("speed", sa.Float(), nullable=True),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("image", sa.String(), nullable=True),
        sa.Column("start_seconds", sa.Float(), nullable=False),
        sa.Column("started_in", sa.Float(), nullable=True),
        sa.Column("least", sa.Integer(), nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.Column("supply", sa.String(), nullable=False),
        sa.Column("command", sa.String(), nullable=False),
        sa.Column("nice", sa.Integer(), nullable=False),
    )
    op.create_table(
        "rental",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        sa.Column("machine", sa.String(), nullable=False),
        sa.Column("machine_class", sa.String(), nullable=False),
        sa.Column("cores", sa.Integer(), nullable=False),
        sa.Column("price", sa.Float(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("ordered", sa.Float(), nullable=False),
        sa.Column("ready", sa.Float(), nullable=True),
        sa.Column("ended", sa.Float(), nullable=True),
        sa.Column("speed", sa.Float(), nullable=True),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_rental_ended", "rental", ["ended"])
    op.execute(
        "INSERT INTO rental (machine, machine_class, cores, price, why, ordered, ready) "
        "SELECT name, 'added', 1, 0, '', added, added FROM machine WHERE added IS NOT NULL"
    )
    op.drop_column("machine", "added")


def downgrade() -> None:
    """Remove the tables; rented machines are added ones again."""
    op.add_column("machine", sa.Column("added", sa.Float(), nullable=True))
    op.execute(
        "UPDATE machine SET added = "
        "(SELECT max(ordered) FROM rental WHERE rental.machine = machine.name AND rental.ended IS NULL)"
    )
    op.drop_index("ix_rental_ended", "rental")
    op.drop_table("rental")
    op.drop_table("machine_class")
