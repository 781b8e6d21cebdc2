"""Imported before anything else of `sqlalchemy.ext.asyncio`, it has that package load its ORM once it is asked for.

We use nothing of the ORM, and it is a tenth of the time in which the program starts (measured). Whoever does, in a
program that uses this one, notices nothing: what we have not loaded loads itself.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any, Final

_PACKAGE: Final = "sqlalchemy.ext.asyncio"


def _load() -> None:
    spec = find_spec(_PACKAGE)
    assert spec is not None
    assert spec.loader is not None
    package, loader = module_from_spec(spec), spec.loader
    sys.modules[_PACKAGE] = package
    engine = import_module(f"{_PACKAGE}.engine")
    for name in ("AsyncConnection", "AsyncEngine", "create_async_engine"):
        setattr(package, name, getattr(engine, name))

    def everything_else(name: str) -> Any:
        if name.startswith("__"):  # which others look for in all modules
            raise AttributeError(name)
        del vars(package)["__getattr__"]
        loader.exec_module(package)
        return getattr(package, name)

    vars(package)["__getattr__"] = everything_else


if _PACKAGE not in sys.modules:
    _load()
