"""Templates and secrets by the REST interface v2: `/v2/templates`, `/v2/account/secrets` (as observed)."""

import re
from functools import partial
from http import HTTPStatus
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from orchestrator.emulator.account.account import Account
from orchestrator.emulator.account.pod_bodies import Name, checked
from orchestrator.emulator.account.pod_records import OMITTED, Omitted
from orchestrator.emulator.account.secrets import ServiceSecret
from orchestrator.emulator.account.template_bodies import DISK_GB, parse_template, shown_template, template_after
from orchestrator.emulator.account.templates import ServiceTemplate, blank_template
from orchestrator.emulator.account_api.rest_v2 import NOTHING, RestV2, ok, read_json_body
from orchestrator.emulator.contract.answers import HttpAnswer, ProblemRefusal, ServiceRefusal, invalid_problem

SECRET_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.\-/]*")
SECRET_NAME_LENGTH_MAX = 191
DESCRIPTION_BYTES_MAX = 65_535


class SecretBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an update."""

    value: Name | Omitted = OMITTED
    description: str | Omitted = OMITTED


class SecretCreation(SecretBody, frozen=True, kw_only=True):
    """The body of a create."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=SECRET_NAME_LENGTH_MAX)]
    value: Name


class AccountV2Api:
    """Answers requests about what is neither a pod nor an endpoint."""

    def __init__(self, rest: RestV2, account: Account) -> None:
        self._rest = rest
        self._templates = account.templates
        self._secrets = account.secrets

    def routes(self) -> list[Route]:
        """The routes of both."""
        templates, secrets = partial(self._rest.route, "templates"), partial(self._rest.route, "secrets")
        return [
            templates(
                "/v2/templates",
                GET=("templates list", self._list_templates),
                POST=("templates create", self._create_template),
            ),
            templates(
                "/v2/templates/{template_id}",
                GET=("templates get", self._get_template),
                PATCH=("templates update", self._update_template),
                DELETE=("templates delete", self._delete_template),
            ),
            secrets(
                "/v2/account/secrets",
                GET=("secrets list", self._list_secrets),
                POST=("secrets create", self._create_secret),
            ),
            secrets(
                "/v2/account/secrets/{secret_id}",
                GET=("secrets get", self._get_secret),
                PATCH=("secrets update", self._update_secret),
                DELETE=("secrets delete", self._delete_secret),
            ),
        ]

    # --- templates

    async def _list_templates(self, request: Request, _account: str) -> HttpAnswer:
        page, pagination = self._rest.pages.cut("templates", self._templates.list(), request.query_params)
        return ok({"templates": [shown_template(template) for template in page], "pagination": pagination})

    async def _create_template(self, request: Request, _account: str) -> HttpAnswer:
        body = parse_template(await read_json_body(request), create=True)
        blank = blank_template(DISK_GB, id=self._templates.new_id())
        return ok(shown_template(self._templates.put(template_after(blank, body))), HTTPStatus.CREATED)

    async def _get_template(self, request: Request, _account: str) -> HttpAnswer:
        return ok(shown_template(self._own_template(request)))

    async def _update_template(self, request: Request, _account: str) -> HttpAnswer:
        body = parse_template(await read_json_body(request), create=False)
        return ok(shown_template(self._templates.put(template_after(self._own_template(request), body))))

    async def _delete_template(self, request: Request, _account: str) -> HttpAnswer:
        self._templates.forget(self._own_template(request), self._rest.clock.now())
        return NOTHING

    def _own_template(self, request: Request) -> ServiceTemplate:
        return self._templates.own(request.path_params["template_id"])

    # --- secrets

    async def _list_secrets(self, request: Request, _account: str) -> HttpAnswer:
        name = request.query_params.get("name", "").casefold()
        shown = [_shown_secret(each) for each in self._secrets.list() if name in ("", each.name.casefold())]
        return ok({"secrets": shown})

    async def _create_secret(self, request: Request, _account: str) -> HttpAnswer:
        body = checked(await read_json_body(request), SecretCreation, _of_secret)
        try:
            secret = self._secrets.create(body.name, body.value, body.description or None, self._rest.clock.now())
        except ServiceRefusal as refusal:
            raise ProblemRefusal(refusal.status, refusal.error) from None
        return ok(_shown_secret(secret), HTTPStatus.CREATED)

    async def _get_secret(self, request: Request, _account: str) -> HttpAnswer:
        return ok(_shown_secret(self._find_secret(request)))

    async def _update_secret(self, request: Request, _account: str) -> HttpAnswer:
        body = checked(await read_json_body(request), SecretBody, _of_secret)
        secret = self._find_secret(request)
        if body == SecretBody():
            raise invalid_problem(["$: minProperties: got 0, want 1"])
        if not isinstance(body.value, Omitted):
            secret = self._secrets.rotate(secret.id, body.value, self._rest.clock.now())
        if not isinstance(body.description, Omitted):
            secret = self._secrets.describe(secret.id, body.description, self._rest.clock.now())
        return ok(_shown_secret(secret))

    async def _delete_secret(self, request: Request, _account: str) -> HttpAnswer:
        self._secrets.delete(self._find_secret(request).id)
        return NOTHING

    def _find_secret(self, request: Request) -> ServiceSecret:
        return self._secrets.find(request.path_params["secret_id"])


def _of_secret(body: SecretBody) -> list[str]:
    """What a shape cannot say of a secret."""
    problems = []
    name = body.name if isinstance(body, SecretCreation) else "a"
    if SECRET_NAME.fullmatch(name) is None or name.upper().startswith("RUNPOD"):
        problems.append("$.name: does not match '^[a-zA-Z_][a-zA-Z0-9_.\\-/]*$', or begins with RUNPOD")
    if len((body.description or "").encode()) > DESCRIPTION_BYTES_MAX:
        problems.append(f"$.description: is longer than {DESCRIPTION_BYTES_MAX} bytes")
    return problems


def _shown_secret(secret: ServiceSecret) -> dict[str, object]:
    shown: dict[str, object] = msgspec.to_builtins(secret)
    del shown["updatedAt"]
    return shown
