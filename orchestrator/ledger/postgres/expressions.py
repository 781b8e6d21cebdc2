"""How PostgreSQL says what has no portable words: see `ledger/statements.py` and `ledger/expressions.py`."""

# ruff: noqa: S608  all that is put together here is ours

from typing import Any, Final

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import NULLTYPE

from orchestrator.ledger import expressions, named_batches, statements
from orchestrator.ledger.expressions import shard_of
from orchestrator.ledger.postgres.dialect import DIALECT
from orchestrator.ledger.statements import compile_functions

_ELEMENTS: Final = "jsonb_array_elements_text(CAST({} AS JSONB)) WITH ORDINALITY AS element(value, n)"

compile_functions(
    "postgresql",
    {
        statements.Numbers: f"(SELECT n - 1 AS key, value::BIGINT AS value FROM {_ELEMENTS})",
        statements.Texts: f'(SELECT n - 1 AS key, value COLLATE "C" AS value FROM {_ELEMENTS})',
        statements.Rows: "jsonb_array_elements(CAST({} AS JSONB))",
        expressions.PlaceIn: "strpos({})",
        expressions.IsMet: "CASE WHEN {} THEN 1 ELSE 0 END",
        expressions.AsNumber: "CAST(CAST({} AS INTEGER) AS BIGINT)",
    },
)


@compiles(statements.Field, "postgresql")
def _field(element: statements.Field, compiler: SQLCompiler, **kw: Any) -> str:
    value = compiler.process(statements.ROWS.c.value, **kw)
    kind = DIALECT.type_compiler_instance.process(element.type)
    return f"CAST({value} ->> {element.position} AS {kind})"


@compiles(expressions.Greatest, "postgresql")
@compiles(expressions.Least, "postgresql")
def _extreme(element: expressions.Extreme, compiler: SQLCompiler, **kw: Any) -> str:
    """The server's own takes no notice of NULLs."""
    name = "greatest" if isinstance(element, expressions.Greatest) else "least"
    kind = DIALECT.type_compiler_instance.process(element.type)
    values = [compiler.process(each, **kw) for each in element.clauses]
    typed = ", ".join(
        f"CAST({value} AS {kind})" if each.type is NULLTYPE else value
        for each, value in zip(element.clauses, values, strict=True)
    )
    return f"CASE WHEN num_nulls({typed}) = 0 THEN {name}({typed}) END"


@compiles(expressions.Unindexed, "postgresql")
def _unindexed(element: expressions.Unindexed, compiler: SQLCompiler, **kw: Any) -> str:
    """The column: this planner knows how many rows an index leads to."""
    return compiler.process(element.column, **kw)


@compiles(expressions.NobodyBeside, "postgresql")
def _nobody_beside(element: expressions.NobodyBeside, compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ARG001
    return "false"


@compiles(expressions.AloneOrBeside, "postgresql")
def _alone_or_beside(element: expressions.AloneOrBeside, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.beside, **kw)


@compiles(named_batches.NamedInBatch, "postgresql")
def _named_in_batch(element: named_batches.NamedInBatch, compiler: SQLCompiler, **kw: Any) -> str:
    number = compiler.process(element.number, **kw)
    return f"{number} = ANY(ARRAY({compiler.process(element.numbers, **kw)}))"


@compiles(named_batches.InOrderOfNames, "postgresql")
def _in_order_of_names(element: named_batches.InOrderOfNames, compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ARG001
    """Until the transaction ends."""
    return "set_config('enable_sort', 'off', true) || set_config('plan_cache_mode', 'force_custom_plan', true)"


@compiles(expressions.NotByKey, "postgresql")
def _not_by_key(element: expressions.NotByKey, compiler: SQLCompiler, **kw: Any) -> str:
    """As the index has it (`tables.OWN_INDEXES`)."""
    return f"({compiler.process(element.column, **kw)} + 0)"


@compiles(statements.InPlaceOfPrefix, "postgresql")
def _in_place_of_prefix(element: statements.InPlaceOfPrefix, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.clause, **kw)


@compiles(expressions.Joined, "postgresql")
def _joined(element: expressions.Joined, compiler: SQLCompiler, **kw: Any) -> str:
    values, by = (compiler.process(each, **kw) for each in element.clauses)
    return f"string_agg({values}, ',' ORDER BY {by})"


@compiles(expressions.OfGreatest, "postgresql")
def _of_greatest(element: expressions.OfGreatest, compiler: SQLCompiler, **kw: Any) -> str:
    column, by = compiler.process(element.column, **kw), compiler.process(element.by, **kw)
    return f"(array_agg({column} ORDER BY {by} DESC NULLS LAST))[1]"


# --- of the processes that share a ledger, whose tables a file does not have


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
