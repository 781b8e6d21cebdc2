"""The Batch API as one ASGI application: its routes, and the keys before all of them."""

from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.types import ASGIApp

from orchestrator.api.batch_api.file_store import FileStore
from orchestrator.batch_api.access import KeyCheck
from orchestrator.batch_api.answers import HANDLERS
from orchestrator.batch_api.file_routes import FileRoutes


def batch_api_application(store: FileStore, keys: Mapping[str, str]) -> ASGIApp:
    """What answers for the files of `store` those who have one of `keys`, by name; everybody, where there are none."""
    app = Starlette(routes=FileRoutes(store=store).routes(), exception_handlers=dict(HANDLERS))
    app.router.redirect_slashes = False
    return KeyCheck(app=app, keys=keys)
