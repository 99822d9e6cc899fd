"""Runs the migrations on the connection that :func:`penstock.control.state.store.database.migrate` hands over."""

from alembic import context

from penstock.control.state.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
