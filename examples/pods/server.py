"""What listens in each pod: any web server does. This one answers `POST /caption`, and `GET /ping` while it is well."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


async def ping(_request: Request) -> Response:
    """Pods take part once this is answered."""
    return Response()


async def caption(request: Request) -> JSONResponse:
    """The input of a row is the body, and the answer is its output."""
    asked = await request.json()
    return JSONResponse({"caption": f"A picture of {asked['prompt']}"})


app = Starlette(routes=[Route("/ping", ping), Route("/caption", caption, methods=["POST"])])
