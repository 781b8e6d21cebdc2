"""`/v1/batches` and `/v1/models`: batches are made, listed, shown and cancelled, and models are named."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from orchestrator.api.batch_api.batch_store import BatchStore
from orchestrator.api.batch_api.refusals import RefusalKind, RequestRefusedError, not_found
from orchestrator.batch_api.access import key_owner
from orchestrator.batch_api.answers import json_answer
from orchestrator.batch_api.list_questions import list_page, page_of
from orchestrator.core.batch_api.batch_question import BatchQuestion
from orchestrator.units import KIB
from orchestrator.views.batch_api import ModelList, ModelObject

BATCHES: Final = "/v1/batches"
MODELS: Final = "/v1/models"
PAGE_MAX: Final = 100
PAGE_USUAL: Final = 20
QUESTION_BYTES_MAX: Final = 64 * KIB
QUESTION_S_MAX: Final = 60.0

_question: Final = msgspec.json.Decoder(BatchQuestion)


@dataclass(kw_only=True, eq=False)
class BatchRoutes:
    """What is answered about batches and models."""

    store: BatchStore
    models: Collection[str]
    began_at_s: int
    """Since when the models are served."""

    def routes(self) -> Sequence[BaseRoute]:
        """All of it."""
        one = f"{BATCHES}/{{batch}}"
        return (
            Route(BATCHES, self._post, methods=["POST"]),
            Route(BATCHES, self._list),
            Route(one, self._show),
            Route(f"{one}/cancel", self._cancel, methods=["POST"]),
            Route(MODELS, self._list_models),
            Route(f"{MODELS}/{{model:path}}", self._show_model),
        )

    async def _post(self, request: Request) -> Response:
        try:
            question = _question.decode(await _body(request))
        except (msgspec.DecodeError, RecursionError) as error:
            raise RequestRefusedError(f"The body is no batch: {error}") from error
        return json_answer(await self.store.create(key_owner(request), question))

    async def _list(self, request: Request) -> Response:
        page = page_of(request, most=PAGE_MAX, usual=PAGE_USUAL)
        found = await self.store.page(key_owner(request), after=page.after, most=page.most + 1)
        return json_answer(list_page(found, page))

    async def _show(self, request: Request) -> Response:
        return json_answer(await self.store.show(key_owner(request), request.path_params["batch"]))

    async def _cancel(self, request: Request) -> Response:
        return json_answer(await self.store.cancel(key_owner(request), request.path_params["batch"]))

    async def _list_models(self, _request: Request) -> Response:
        return json_answer(ModelList(data=[self._model(each) for each in self.models]))

    async def _show_model(self, request: Request) -> Response:
        model = request.path_params["model"]
        if model not in self.models:
            raise not_found("Model", model, param="model")
        return json_answer(self._model(model))

    def _model(self, model: str) -> ModelObject:
        return ModelObject(id=model, created=self.began_at_s, owned_by="orchestrator")


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        with anyio.fail_after(QUESTION_S_MAX):
            async for piece in request.stream():
                body += piece
                if len(body) > QUESTION_BYTES_MAX:
                    raise RequestRefusedError("The body is too long.", RefusalKind.TOO_LARGE)
    except (TimeoutError, ClientDisconnect) as error:
        raise RequestRefusedError(f"The body did not come within {QUESTION_S_MAX:.0f} s.") from error
    return bytes(body)
