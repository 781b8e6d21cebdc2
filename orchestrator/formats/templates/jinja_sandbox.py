"""One template in Jinja's sandbox, where it reaches nothing of the program. Loaded with the first template: most runs
have none.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, nodes
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from orchestrator.formats.templates.bounds import Allowance, check_call, checked_filter, checked_operation, weight
from orchestrator.formats.templates.field_templates import instead_of
from orchestrator.user_code import UserCodeError, call

_EXPRESSION: Final = re.compile(r"\s*\{\{(?P<expression>(?:(?!\{\{|\}\}).)*)\}\}\s*", re.DOTALL)


_PLAIN: Final = (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a template's author understands by what it says, without its kind."""


_allowance: Final = Allowance()


class _Rows(SandboxedEnvironment):
    """`row.items` is the field of that name, not a method; and nothing comes to more than a row may."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self, **options: Any) -> None:
        super().__init__(finalize=_allowance.made, **options)
        self.globals.pop("lipsum")
        self.filters = {name: checked_filter(name, each, _allowance) for name, each in self.filters.items()}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        _allowance.spend(checked_operation(operator, left, right))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        _allowance.spend(check_call(obj, args, kwargs))
        made = super().call(context, obj, *args, **kwargs)
        return _allowance.made(made) if isinstance(made, str | bytes | list | tuple | dict) else made

    def joined(self, *parts: Any) -> str:
        """What `a ~ b` makes."""
        _allowance.spend(sum(map(weight, parts)))
        return "".join(map(str, parts))

    def turn(self, size: int) -> str:
        """Another turn of a loop, or call of a macro, whose own text is so long."""
        _allowance.spend(size)
        return ""

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        return super()._generate(_Bounded().visit(source), *args, **kwargs)


class _Bounded(NodeTransformer):
    """Has each turn of a loop, each call of a macro and each `~` pay for itself."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802  as Jinja calls them
        return self._paying(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        return self._paying(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        return self._paying(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _called("joined", node.nodes)

    def _paying(self, node: nodes.For | nodes.Macro | nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        size = sum(len(each.data) for each in node.find_all(nodes.TemplateData))
        node.body.insert(0, nodes.ExprStmt(_called("turn", [nodes.Const(size)])))
        return node


def _called(name: str, arguments: list[nodes.Expr]) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), arguments, [], None, None)


class _Missing(StrictUndefined):
    """A field that is not there, in words that name those that are."""

    @property
    def _undefined_message(self) -> str:
        there, name = self._undefined_obj, self._undefined_name
        if isinstance(there, Mapping) and isinstance(name, str):
            return f"there is no {name!r}; {instead_of(name, there)}"
        if there is missing:
            return f"{name!r} is undefined; a field of the row is written row.{name}"
        return super()._undefined_message


_rows: Final = _Rows(undefined=_Missing, keep_trailing_newline=True, autoescape=False)


def compiled(text: str) -> Callable[[Mapping[str, Any]], Any]:
    """What `text` makes of a record, which it calls `row`. Raises `ValueError` where it is no template, and so does the
    template where it makes nothing of a record.
    """
    try:
        if alone := _EXPRESSION.fullmatch(text):
            value_of = call(_rows.compile_expression, alone["expression"], undefined_to_none=False)
            return lambda record: _told(value_of, record)
        render = call(_rows.from_string, text).render
    except UserCodeError as error:
        is_plain = isinstance(error.error, TemplateSyntaxError)
        raise ValueError(f"this is no template: {error.message if is_plain else error}") from None
    return lambda record: _told(render, record)


def _told(apply: Callable[..., Any], record: Mapping[str, Any]) -> Any:
    _allowance.renew()
    try:
        value = call(apply, row=record)
        if isinstance(value, Undefined):
            call(value._fail_with_undefined_error)  # noqa: SLF001  there is no other way to have its own words
        call(_allowance.made, value)
    except UserCodeError as error:
        raise ValueError(error.message if isinstance(error.error, _PLAIN) else str(error)) from None
    return value
