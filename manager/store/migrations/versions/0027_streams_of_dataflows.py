"""The streams of dataflows, and the quota of them."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both, and count the streams of the dataflows that run."""
    op.add_column("tenant", sa.Column("streams", sa.Integer(), nullable=False, server_default="100000"))
    op.add_column("dataflow", sa.Column("streams", sa.Integer(), nullable=False, server_default="0"))
    dataflow = sa.table("dataflow", *map(sa.column, ("number", "document", "removed", "streams")))
    connection = op.get_bind()
    numbers = connection.scalars(sa.select(dataflow.c.number).where(dataflow.c.removed.is_(None))).all()
    # One after the other, because documents are long.
    for number in numbers:
        this = dataflow.c.number == number
        document = json.loads(connection.execute(sa.select(dataflow.c.document).where(this)).scalar_one())
        connection.execute(sa.update(dataflow).where(this).values(streams=len(document["streams"])))
    _index("tenant", "removed", "tasks", "streams")


def downgrade() -> None:
    """Drop both."""
    _index("tenant", "removed", "tasks")
    op.drop_column("dataflow", "streams")
    op.drop_column("tenant", "streams")


def _index(*columns: str) -> None:
    op.drop_index("ix_dataflow_usage", "dataflow")
    op.create_index("ix_dataflow_usage", "dataflow", list(columns))
