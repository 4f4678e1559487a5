"""How alembic reaches the tables; run by `manager/store/database.py`, over a connection that is open already."""

from alembic import context

from manager.store.tables import Leadership

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Leadership.metadata,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
