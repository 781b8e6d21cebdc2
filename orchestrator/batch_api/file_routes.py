"""`/v1/files`: files are posted, listed, shown, read and removed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from orchestrator.api.batch_api.file_store import FileStore
from orchestrator.api.batch_api.refusals import RequestRefusedError, not_found
from orchestrator.batch_api.access import key_owner
from orchestrator.batch_api.answers import json_answer
from orchestrator.batch_api.list_questions import list_page, page_of
from orchestrator.batch_api.uploads import receive_upload
from orchestrator.core.batch_api.posted_file import Purpose
from orchestrator.views.batch_api import DeletedObject, file_object

FILES: Final = "/v1/files"
PAGE_MAX: Final = 10_000


@dataclass(kw_only=True, eq=False)
class FileRoutes:
    """What is answered about files."""

    store: FileStore

    def routes(self) -> Sequence[BaseRoute]:
        """All of it."""
        one = f"{FILES}/{{file}}"
        return (
            Route(FILES, self._post, methods=["POST"]),
            Route(FILES, self._list),
            Route(one, self._show),
            Route(one, self._delete, methods=["DELETE"]),
            Route(f"{one}/content", self._content),
        )

    async def _post(self, request: Request) -> Response:
        return json_answer(file_object(await receive_upload(request, self.store, key_owner(request))))

    async def _list(self, request: Request) -> Response:
        owner = key_owner(request)
        page = page_of(request, most=PAGE_MAX, usual=PAGE_MAX)
        if page.after is not None:
            await self.store.one(owner, page.after, param="after")
        found = await self.store.ledger.runs.posted.files.page(
            owner, after=page.after, most=page.most + 1, is_oldest_first=page.is_oldest_first, purpose=_purpose(request)
        )
        return json_answer(list_page([file_object(each) for each in found], page))

    async def _show(self, request: Request) -> Response:
        return json_answer(file_object(await self.store.one(key_owner(request), request.path_params["file"])))

    async def _delete(self, request: Request) -> Response:
        file = await self.store.delete(key_owner(request), request.path_params["file"])
        return json_answer(DeletedObject(id=file.id, object="file"))

    async def _content(self, request: Request) -> Response:
        file = await self.store.one(key_owner(request), request.path_params["file"])
        path = self.store.path(file.id)
        if not await to_thread.run_sync(path.is_file):  # a copy of the ledger has no contents
            raise not_found("content of File", file.id)
        return FileResponse(path, media_type="application/octet-stream", filename=file.filename)


def _purpose(request: Request) -> Purpose | None:
    text = request.query_params.get("purpose")
    try:
        return None if text is None else Purpose(text)
    except ValueError:
        raise RequestRefusedError(f'"{text:.40}" is no purpose of files here', param="purpose") from None
