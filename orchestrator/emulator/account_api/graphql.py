"""The GraphQL interface, with a real parser: selections, variables, fragments and aliases are the library's affair.

What the document asks for is checked against `SCHEMA`; errors have the form of the specification. A document that
cannot be parsed or does not fit the schema is answered 400, an operation that is refused 200 with `errors` (as
observed). As at the service, the schema cannot be asked for.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import msgspec
from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLResolveInfo,
    GraphQLSchema,
    NoSchemaIntrospectionCustomRule,
    OperationDefinitionNode,
    OperationType,
    build_schema,
    execute_sync,
    parse,
    specified_rules,
    validate,
)

from orchestrator.emulator.account.account import Account
from orchestrator.emulator.account.pod_records import PodVerb
from orchestrator.emulator.account_api import graphql_endpoints, graphql_pods, graphql_user
from orchestrator.emulator.account_api.graphql_endpoints import EndpointDocuments
from orchestrator.emulator.account_api.graphql_pods import PodDocuments
from orchestrator.emulator.account_api.graphql_user import UserDocuments, cpu_flavors, pools
from orchestrator.emulator.contract.answers import HttpAnswer, ProblemRefusal, ServiceRefusal
from orchestrator.emulator.contract.callers import Caller
from orchestrator.emulator.http.not_found import UnservedCalls

TOKENS_MAX = 10_000
"""A longer document is refused before it is understood."""

_TEMPLATE = """
  id: String
  dockerArgs: String
  ports: String
  readme: String
  volumeMountPath: String
  isServerless: Boolean
  containerRegistryAuthId: String
  startSsh: Boolean
  startJupyter: Boolean
  startScript: String
  isPublic: Boolean
  advancedStart: Boolean
  category: String
  config: JSON
  allowedCudaVersions: [String]
"""
"""What is said of a template in both directions."""

SCHEMA = (
    """
scalar JSON
scalar Void

type Query {
  myself: User
  podTemplate(id: String!): PodTemplate
}

type Mutation {
  saveTemplate(input: SaveTemplateInput): PodTemplate
  deleteTemplate(templateName: String): Void
  secretCreate(input: SecretCreateInput!): Secret
  secretValueUpdate(input: SecretValueUpdateInput!): Secret
  secretDescriptionUpdate(input: SecretDescriptionUpdateInput!): Secret
  secretDelete(id: ID!): Void
  saveEndpoint(input: EndpointInput!): Endpoint
  updateEndpointTemplate(input: UpdateEndpointTemplateInput): Endpoint
  deleteEndpoint(id: String!): Void
}

type User {
  id: String
  podTemplates: [PodTemplate]
  secrets: [Secret]
  endpoints: [Endpoint]
  endpoint(id: String!): Endpoint
}

type PodTemplate {"""
    + _TEMPLATE
    + """  name: String
  imageName: String
  containerDiskInGb: Int
  volumeInGb: Int
  env: [EnvironmentVariable]
  isRunpod: Boolean
  boundEndpointId: String
}

type EnvironmentVariable { key: String, value: String }

type Secret { id: ID, name: String, description: String, createdAt: String, updatedAt: String }

input SaveTemplateInput {"""
    + _TEMPLATE
    + """  name: String!
  imageName: String!
  containerDiskInGb: Int!
  volumeInGb: Int!
  env: [EnvironmentVariableInput!]
}

input EnvironmentVariableInput { key: String!, value: String! }

input SecretCreateInput { name: String!, value: String!, description: String }

input SecretValueUpdateInput { id: ID!, value: String! }

input SecretDescriptionUpdateInput { id: ID!, description: String! }
"""
)
"""The contract's mutations, and what it does not show: listing, and endpoints (as observed)."""

RULES = [*specified_rules, NoSchemaIntrospectionCustomRule]

CODES = {400: "BAD_USER_INPUT", 403: "FORBIDDEN", 404: "NOT_FOUND", 409: "CONFLICT"}

_Resolver = Callable[..., object]

_Scoped = Mapping[str, tuple[str | None, _Resolver]]
"""Operations, each with the permission that it takes (not shown, and chosen here); None: any key."""

_IS_UNKNOWN = re.compile("Cannot query field|Unknown type|is not defined by type|Unknown argument")
"""What the parser says of a document that asks for more than `SCHEMA` has."""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    query: str
    variables: dict[str, Any] | None = None
    operation_name: str | None = None


@cache
def _schema() -> GraphQLSchema:
    """Built at the first request: it takes longer than all of the emulator's start."""
    return build_schema(SCHEMA + graphql_endpoints.SCHEMA + graphql_pods.SCHEMA + graphql_user.SCHEMA)


class GraphQLApi:
    """Answers documents about all that `account` has; `notes` is told of what they ask for in vain."""

    def __init__(self, account: Account, notes: UnservedCalls, *, strict: bool = False) -> None:
        """`strict` refuses a template without `env` and `dockerArgs`, as the service was seen to."""
        self._templates = account.templates
        self._secrets = account.secrets
        self._endpoints = EndpointDocuments(account.endpoints, account.templates)
        self._pods = PodDocuments(account.pods)
        self._user = UserDocuments(account.rng, account.gpus)
        self._notes = notes
        self._strict = strict

    def answer(self, body: bytes, now: int, caller: Caller | None, team: str | None = None) -> HttpAnswer:
        """What becomes of the body of one POST. `caller` sent it, for `team` if it may; None: it has no key."""
        try:
            request = msgspec.json.decode(body, type=_Request)
            document = parse(request.query, max_tokens=TOKENS_MAX)
            problems = validate(_schema(), document, RULES)
        except (GraphQLError, ValueError, RecursionError) as error:
            return _failure(400, [_formatted(error)])
        for problem in problems:
            if _IS_UNKNOWN.search(problem.message):
                self._notes.note(f"by GraphQL: {problem.message}")
        if problems:
            return _failure(400, [problem.formatted for problem in problems])
        result = execute_sync(
            _schema(),
            document,
            self._root(now, caller, "" if caller is None else caller.account(team)),
            variable_values=request.variables,
            operation_name=request.operation_name,
            field_resolver=_resolve,
        )
        if result.data is None and result.errors:  # the variables did not fit: nothing was carried out
            return _failure(400, [error.formatted for error in result.errors])
        changes = not result.errors and _changes(document)
        return HttpAnswer(status=200, body=msgspec.json.encode(result.formatted), changes=changes)

    def _root(self, now: int, caller: Caller | None, account: str) -> Mapping[str, _Resolver]:
        resolvers: dict[str, tuple[str | None, _Resolver]] = {
            **self._of_account(now),
            **self._of_pods(now, account),
            **self._of_user(),
        }
        owned = _all_guarded(caller, self._owned(now, account))
        resolvers["myself"] = (None, lambda: {**self._user.shown(), **owned})
        return {**_all_guarded(caller, resolvers), **self._public()}

    def _owned(self, now: int, account: str) -> _Scoped:
        """What `myself` shows of the account, to whoever may see it."""
        return {
            "podTemplates": ("templates:read", self._templates.list),
            "secrets": ("secrets:read", self._secrets.list),
            "endpoints": ("serverless:read", self._endpoints.list),
            "endpoint": ("serverless:read", lambda **given: self._endpoints.find(given["id"])),
            "pods": ("pods:read", lambda: self._pods.list(account, now)),
        }

    def _of_pods(self, now: int, account: str) -> _Scoped:
        pods = self._pods
        acts = {"podStop": PodVerb.STOP, "podResume": PodVerb.START, "podTerminate": PodVerb.TERMINATE}
        changes: Mapping[str, _Resolver] = {
            "podFindAndDeployOnDemand": lambda **given: pods.deploy(given.get("input") or {}, account, now),
            "deployCpuPod": lambda **given: pods.deploy_cpu(given.get("input") or {}, account, now),
            "podEditJob": lambda **given: pods.edit(given["input"], account, now),
            **{
                name: lambda action=action, **given: pods.act(action, given["input"], account, now)
                for name, action in acts.items()
            },
        }
        return {
            "pod": ("pods:read", lambda **given: pods.find(given.get("input") or {"podId": ""}, account, now)),
            **{name: ("pods:write", call) for name, call in changes.items()},
        }

    def _public(self) -> Mapping[str, _Resolver]:
        """What takes no key."""
        user = self._user
        return {
            "gpuTypes": lambda **given: user.gpu_types(given.get("input")),
            "cpuFlavors": lambda **given: cpu_flavors(given.get("input")),
            "dataCenters": user.data_centers,
            "serverlessGpuPools": pools,
            "podTemplates": lambda **_: [],
        }

    def _of_user(self) -> _Scoped:
        user = self._user
        return {
            "updateUserSettings": (None, lambda **given: user.update(given.get("input"))),
            "saveRegistryAuth": (None, lambda **given: user.save_registry(given["input"])),
            "updateRegistryAuth": (None, lambda **given: user.update_registry(given["input"])),
            "deleteRegistryAuth": (None, lambda **given: user.delete_registry(given["registryAuthId"])),
        }

    def _of_account(self, now: int) -> _Scoped:
        templates, secrets, endpoints = self._templates, self._secrets, self._endpoints
        return {
            "podTemplate": ("templates:read", lambda **given: templates.find(given["id"])),
            "saveTemplate": ("templates:write", lambda **given: self._save(given.get("input"))),
            "deleteTemplate": (
                "templates:write",
                lambda **given: templates.delete(given.get("templateName") or "", now),
            ),
            "secretCreate": (
                "secrets:write",
                lambda **given: self._create_secret(given["input"], now),
            ),
            "secretValueUpdate": ("secrets:write", lambda **given: self._rotate_secret(given["input"], now)),
            "secretDescriptionUpdate": (
                "secrets:write",
                lambda **given: self._describe_secret(given["input"], now),
            ),
            "secretDelete": ("secrets:write", lambda **given: secrets.delete(given["id"])),
            "saveEndpoint": ("serverless:write", lambda **given: endpoints.save(given["input"], now)),
            "updateEndpointTemplate": (
                "serverless:write",
                lambda **given: endpoints.update_template(given["input"], now),
            ),
            "deleteEndpoint": ("serverless:write", lambda **given: endpoints.delete(given["id"], now)),
        }

    def _create_secret(self, wanted: Mapping[str, Any], now: int) -> object:
        return self._secrets.create(wanted["name"], wanted["value"], wanted.get("description"), now)

    def _rotate_secret(self, wanted: Mapping[str, str], now: int) -> object:
        return self._secrets.rotate(wanted["id"], wanted["value"], now)

    def _describe_secret(self, wanted: Mapping[str, str], now: int) -> object:
        return self._secrets.describe(wanted["id"], wanted["description"], now)

    def _save(self, wanted: Mapping[str, object] | None) -> object:
        if wanted is None:
            raise ServiceRefusal(400, "input is required")
        if self._strict and (missing := [name for name in ("env", "dockerArgs") if wanted.get(name) is None]):
            raise ServiceRefusal(400, f"{missing[0]} is required")
        return self._templates.save(wanted)


def _all_guarded(caller: Caller | None, operations: _Scoped) -> dict[str, _Resolver]:
    return {name: partial(_guarded, caller, scope, call) for name, (scope, call) in operations.items()}


def _guarded(caller: Caller | None, scope: str | None, call: _Resolver, **given: object) -> object:
    """Raises Refusal 403 where the sender lacks the permission."""
    if caller is None or (scope is not None and scope not in caller.scopes):
        raise ServiceRefusal(403, "access denied")
    return call(**given)


def _resolve(source: Any, info: GraphQLResolveInfo[Any], **arguments: object) -> object:
    """A member of a mapping, or of a record by its name on the wire; called if it is a function."""
    if isinstance(source, msgspec.Struct):
        source = msgspec.to_builtins(source)
    value = source.get(info.field_name)
    try:
        return value(**arguments) if callable(value) else value
    except ServiceRefusal as refusal:
        raise GraphQLError(refusal.error, extensions={"code": CODES[refusal.status]}) from None
    except ProblemRefusal as problem:
        why = ": ".join((problem.detail, *problem.errors[:1]))
        raise GraphQLError(why, extensions={"code": CODES.get(problem.status, CODES[400])}) from None


def _changes(document: DocumentNode) -> bool:
    operations = (node for node in document.definitions if isinstance(node, OperationDefinitionNode))
    return any(node.operation is OperationType.MUTATION for node in operations)


def _failure(status: int, errors: Sequence[object]) -> HttpAnswer:
    return HttpAnswer(status=status, body=msgspec.json.encode({"errors": errors}))


def _formatted(error: Exception) -> object:
    if isinstance(error, GraphQLError):
        return error.formatted
    return {"message": f"the body is no GraphQL request: {type(error).__name__}"}
