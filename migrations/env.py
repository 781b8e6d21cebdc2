"""How Alembic runs the migrations of a ledger: on a connection that the program hands over, in its transaction."""

from alembic import context

from orchestrator.ledger.schema.job_tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
