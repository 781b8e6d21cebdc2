"""The Batch API as one ASGI application: its routes, and the keys before all of them."""

from collections.abc import Collection, Mapping

from starlette.applications import Starlette
from starlette.types import ASGIApp

from orchestrator.api.batch_api.batch_store import BatchStore
from orchestrator.batch_api.access import KeyCheck
from orchestrator.batch_api.answers import HANDLERS
from orchestrator.batch_api.batch_routes import BatchRoutes
from orchestrator.batch_api.file_routes import FileRoutes
from orchestrator.views.batch_api import unix_seconds


def batch_api_application(store: BatchStore, models: Collection[str], keys: Mapping[str, str]) -> ASGIApp:
    """What answers for the batches of `store`, of these models, those who have one of `keys`, by name; everybody, where
    there are none.
    """
    batches = BatchRoutes(store=store, models=models, began_at_s=unix_seconds(store.ledger.now()))
    routes = [*FileRoutes(store=store.files).routes(), *batches.routes()]
    app = Starlette(routes=routes, exception_handlers=dict(HANDLERS))
    app.router.redirect_slashes = False
    return KeyCheck(app=app, keys=keys)
