"""The dashboard as one ASGI application: its pages, its forms, its files, and the door before all of them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import tzinfo
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from orchestrator.clock import Clock, local_zone
from orchestrator.dashboard.access.access_middleware import AccessMiddleware
from orchestrator.dashboard.access.authentication import visitors_of
from orchestrator.dashboard.actions.all_actions import ROUTES
from orchestrator.dashboard.error_answers import ANSWERED, ProblemPages
from orchestrator.dashboard.form_answers import FormAnswers
from orchestrator.dashboard.health_route import HealthChecks
from orchestrator.dashboard.login_pages import Login
from orchestrator.dashboard.metrics_route import MetricsRoute
from orchestrator.dashboard.page import FormRoute, Page
from orchestrator.dashboard.page_answers import PageAnswers
from orchestrator.dashboard.pages.all_pages import all_pages
from orchestrator.dashboard.reading.ledger_reader import open_reader
from orchestrator.dashboard.rendering.jinja_environment import STATIC, TEMPLATES, Urls, environment
from orchestrator.dashboard.rendering.renderer import Renderer
from orchestrator.dashboard.scenes import Scenes
from orchestrator.ledger import Connect, LedgerAddress
from orchestrator.settings.monitoring.dashboard_settings import DashboardSettings


@asynccontextmanager
async def open_dashboard(
    ledger: LedgerAddress,
    settings: DashboardSettings = DashboardSettings(),  # noqa: B008  it is frozen
    *,
    clock: Clock,
    zone: tzinfo | None = None,
    connect: Connect | None = None,
    pages: Sequence[Page] | None = None,
    forms: Sequence[FormRoute] = ROUTES,
    templates: Sequence[Path] = (TEMPLATES,),
) -> AsyncIterator[AccessMiddleware]:
    """The application for the ledger at that path; moments are shown by the clock of `zone`, that of this machine.

    Raises `UsageError` for settings that would let anybody in, and `StorageError` where its key cannot be kept.
    """
    visitors = visitors_of(ledger, settings, clock)
    zone, pages = zone or local_zone(), all_pages() if pages is None else pages
    urls = Urls(settings.prefix)
    renderer = Renderer(environment(ledger, zone, templates), urls, {page.path for page in pages})
    async with open_reader(ledger, clock=clock, connect=connect) as reader:
        scenes = Scenes(reader=reader, visitors=visitors)
        page_answers = PageAnswers(reader=reader, renderer=renderer, scenes=scenes)
        problems = ProblemPages(renderer=renderer, urls=urls, scene=scenes.without_page)
        routes: list[BaseRoute] = [
            Mount("/static", StaticFiles(directory=STATIC)),
            *HealthChecks(reader=reader).routes(),
            *MetricsRoute(reader=reader, visitors=visitors).routes(),
            *map(page_answers.route, pages),
        ]
        if not settings.read_only:
            form_answers = FormAnswers(
                reader=reader,
                clock=clock,
                renderer=renderer,
                urls=urls,
                scenes=scenes,
                views=page_answers.views,
                connect=connect,
            )
            routes += map(form_answers.route, forms)
        if not settings.no_login:
            login = Login(visitors=visitors, renderer=renderer, urls=urls, clock=clock)
            problems.sign_in = login.page
            routes += login.routes()
        app = Starlette(routes=routes, exception_handlers=dict.fromkeys(ANSWERED, problems.answer))
        app.router.redirect_slashes = False  # it would lead to an address without our prefix
        yield AccessMiddleware(app=app, visitors=visitors, refuse=problems.answer, clock=clock)
