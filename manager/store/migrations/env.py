"""How alembic reaches the tables; run by `manager/store/database.py`, over a connection that is open already."""

from alembic import context

from manager.store.machine_tables import MachineRow

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=MachineRow.metadata,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
