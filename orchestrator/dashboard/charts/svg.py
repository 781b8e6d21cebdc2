"""Elements of SVG as text. Nothing has a style of its own: the page's policy would refuse it, so there are classes."""

from markupsafe import Markup, escape


def element(name: str, *children: Markup | str, **attributes: str | float) -> Markup:
    """One element; a trailing `_` of an attribute's name is left out, and `_` within becomes `-`."""
    # Not by `Markup.format`, which takes ten times as long: a run's charts have hundreds of elements.
    opened = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value) if isinstance(value, str) else number_text(value)}"'
        for key, value in attributes.items()
    )
    inner = "".join(child if isinstance(child, Markup) else escape(child) for child in children)
    return Markup(f"<{name}{opened}>{inner}</{name}>" if inner else f"<{name}{opened}/>")  # noqa: S704  all is escaped


def number_text(value: float) -> str:
    """A place in a drawing: to a tenth, as short as it goes."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def percent_text(share: float) -> str:
    """A place in a drawing whose size is not known: 0.3751 is "37.51%"."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"
