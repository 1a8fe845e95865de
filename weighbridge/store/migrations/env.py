"""How Alembic reaches the database: through the connection that `upgrade` hands it."""

from __future__ import annotations

from alembic import context

from weighbridge.store.schema import metadata


def run() -> None:
    """Run the wanted migrations inside the caller's transaction."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        render_as_batch=True,  # SQLite alters a table by building it anew
    )
    with context.begin_transaction():
        context.run_migrations()


# Alembic executes this file; whoever merely imports it (a collector of doctests) runs nothing.
if hasattr(context, "config"):
    run()
