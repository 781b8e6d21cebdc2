"""The buttons by which pages ask for actions: forms that work without a script, for those alone who may act."""

from collections.abc import Mapping
from typing import Any, Final

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

BACK: Final = "back"
"""The field that says to which page of ours to go back: with a query, the same page of a list."""


@pass_context
def action(
    context: Context, label: str, path: str, fields: Mapping[str, object] | None = None, note: str = ""
) -> Markup:
    """A button that asks for the action at `path` (`/runs/17/pause`), with what else it says in `fields`; nothing for
    those who may not act. A global of the templates: `{{ action("Pause …", "/runs/17/pause") }}`.
    """
    if not context["may_act"]:
        return Markup()
    told: dict[str, Any] = {name: value for name, value in (fields or {}).items() if value not in (None, "")}
    if "here" in context and BACK not in told:
        query = context.get("query", "")
        told[BACK] = f"{context['here']}?{query}" if query else context["here"]
    form = context.environment.get_template("action.html")
    return Markup(form.render(label=label, address=context["url"](path), fields=told, note=note))  # noqa: S704  it escapes
