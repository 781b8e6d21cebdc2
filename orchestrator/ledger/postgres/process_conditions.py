"""How PostgreSQL says what concerns the processes that share a ledger, whose tables a file does not have."""

from typing import Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from orchestrator.ledger import expressions
from orchestrator.ledger.expressions import shard_of


@compiles(expressions.NobodyHas, "postgresql")
def _nobody_has(element: expressions.NobodyHas, compiler: SQLCompiler, **kw: Any) -> str:
    number = compiler.process(element.endpoint, **kw)
    return (
        f"EXISTS (SELECT FROM leases JOIN endpoints AS its ON {shard_of('its')} = shard"
        f" WHERE owner IS NULL AND its.id = {number})"
    )


@compiles(expressions.NoProcess, "postgresql")
def _no_process(element: expressions.NoProcess, compiler: SQLCompiler, **kw: Any) -> str:
    number, slot = compiler.process(element.number, **kw), compiler.process(element.slot, **kw)
    present = f"EXISTS (SELECT FROM processes AS its WHERE its.id = {number} AND its.slot = {slot})"
    return f"({number} <> 0 AND NOT {present})"
