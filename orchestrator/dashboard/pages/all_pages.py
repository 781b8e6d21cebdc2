"""All pages with their routes: each module here has a `PAGE`, or several `PAGES`."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from orchestrator.dashboard import pages
from orchestrator.dashboard.page import Page


@cache
def all_pages() -> tuple[Page, ...]:
    """Every page, in the order of its modules' names."""
    return tuple(_found())


def _found() -> Iterator[Page]:
    for each in iter_modules(pages.__path__):
        module = import_module(f"{pages.__name__}.{each.name}")
        if hasattr(module, "PAGE"):
            yield module.PAGE
        yield from getattr(module, "PAGES", ())
