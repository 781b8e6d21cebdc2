"""The GraphQL interface, with a real parser: selections, variables, fragments and aliases are the library's affair.

What the document asks for is checked against `SCHEMA`; errors have the form of the specification. A document that
cannot be parsed or does not fit the schema is answered 400, an operation that is refused 200 with `errors` (as
observed). As at the service, the schema cannot be asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
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

from orchestrator.emulator import graphql_endpoints
from orchestrator.emulator.answers import Answer, Refusal
from orchestrator.emulator.endpoints import Endpoints
from orchestrator.emulator.graphql_endpoints import EndpointDocuments
from orchestrator.emulator.secrets import Secrets
from orchestrator.emulator.templates import Templates

TOKENS_MAX = 10_000
"""A longer document is refused before it is understood."""

SCHEMA = """
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
  updateEndpointTemplate(input: UpdateEndpointTemplateInput!): Endpoint
  deleteEndpoint(id: String!): Void
}

type User { id: String, podTemplates: [PodTemplate], secrets: [Secret], endpoints: [Endpoint] }

type PodTemplate {
  id: String
  name: String
  imageName: String
  containerDiskInGb: Int
  volumeInGb: Int
  dockerArgs: String
  env: [EnvironmentVariable]
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
}

type EnvironmentVariable { key: String, value: String }

type Secret { id: ID, name: String, description: String, createdAt: String, updatedAt: String }

input SaveTemplateInput {
  id: String
  name: String!
  imageName: String!
  containerDiskInGb: Int!
  volumeInGb: Int!
  dockerArgs: String
  env: [EnvironmentVariableInput!]
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
}

input EnvironmentVariableInput { key: String!, value: String! }

input SecretCreateInput { name: String!, value: String!, description: String }

input SecretValueUpdateInput { id: ID!, value: String! }

input SecretDescriptionUpdateInput { id: ID!, description: String! }
"""
"""The contract's mutations, and what it does not show: listing, and endpoints (as observed)."""

RULES = [*specified_rules, NoSchemaIntrospectionCustomRule]

SCOPES_OF: Mapping[str, str] = {
    "podTemplate": "templates:read",
    "saveTemplate": "templates:write",
    "deleteTemplate": "templates:write",
    "secretCreate": "secrets:write",
    "secretValueUpdate": "secrets:write",
    "secretDescriptionUpdate": "secrets:write",
    "secretDelete": "secrets:write",
    "saveEndpoint": "serverless:write",
    "updateEndpointTemplate": "serverless:write",
    "deleteEndpoint": "serverless:write",
}
"""The permission that each operation takes (not shown, and chosen here)."""

CODES = {400: "BAD_USER_INPUT", 403: "FORBIDDEN", 404: "NOT_FOUND", 409: "CONFLICT"}

_Resolver = Callable[..., object]


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    query: str
    variables: dict[str, Any] | None = None
    operation_name: str | None = None


@cache
def _schema() -> GraphQLSchema:
    """Built at the first request: it takes longer than all of the emulator's start."""
    return build_schema(SCHEMA + graphql_endpoints.SCHEMA)


class GraphQLApi:
    """Answers documents about templates, secrets and endpoints."""

    def __init__(self, templates: Templates, secrets: Secrets, endpoints: Endpoints) -> None:
        self._templates = templates
        self._secrets = secrets
        self._endpoints = EndpointDocuments(endpoints)

    def answer(self, body: bytes, now: int, may: Callable[[str], bool] = lambda _: True) -> Answer:
        """What becomes of the body of one POST; `may` says whether its sender has a permission."""
        try:
            request = msgspec.json.decode(body, type=_Request)
            document = parse(request.query, max_tokens=TOKENS_MAX)
            problems = validate(_schema(), document, RULES)
        except (GraphQLError, ValueError, RecursionError) as error:
            return _failure(400, [_formatted(error)])
        if problems:
            return _failure(400, [problem.formatted for problem in problems])
        result = execute_sync(
            _schema(),
            document,
            self._root(now, may),
            variable_values=request.variables,
            operation_name=request.operation_name,
            field_resolver=_resolve,
        )
        if result.data is None and result.errors:  # the variables did not fit: nothing was carried out
            return _failure(400, [error.formatted for error in result.errors])
        changes = not result.errors and _changes(document)
        return Answer(status=200, body=msgspec.json.encode(result.formatted), changes=changes)

    def _root(self, now: int, may: Callable[[str], bool]) -> Mapping[str, _Resolver]:
        resolvers = self._resolvers(now)
        of_account = {
            name: partial(_guarded, may, f"{family}:read", call) for name, (family, call) in self._owned.items()
        }
        guarded = {name: partial(_guarded, may, SCOPES_OF[name], call) for name, call in resolvers.items()}
        return {"myself": lambda: {"id": "user_emulated", **of_account}, **guarded}

    @cached_property
    def _owned(self) -> Mapping[str, tuple[str, _Resolver]]:
        """What `myself` shows, and the family of the permission that it takes to see it."""
        return {
            "podTemplates": ("templates", self._templates.list),
            "secrets": ("secrets", self._secrets.list),
            "endpoints": ("serverless", self._endpoints.list),
        }

    def _resolvers(self, now: int) -> Mapping[str, _Resolver]:
        return {
            "podTemplate": lambda **given: self._templates.find(given["id"]),
            "saveTemplate": lambda **given: self._save(given.get("input")),
            "deleteTemplate": lambda **given: self._templates.delete(given.get("templateName") or "", now),
            "secretCreate": lambda **given: self._create_secret(given["input"], now),
            "secretValueUpdate": lambda **given: self._rotate_secret(given["input"], now),
            "secretDescriptionUpdate": lambda **given: self._describe_secret(given["input"], now),
            "secretDelete": lambda **given: self._secrets.delete(given["id"]),
            "saveEndpoint": lambda **given: self._endpoints.save(given["input"], now),
            "updateEndpointTemplate": lambda **given: self._endpoints.update_template(given["input"], now),
            "deleteEndpoint": lambda **given: self._endpoints.delete(given["id"], now),
        }

    def _create_secret(self, wanted: Mapping[str, Any], now: int) -> object:
        return self._secrets.create(wanted["name"], wanted["value"], wanted.get("description"), now)

    def _rotate_secret(self, wanted: Mapping[str, str], now: int) -> object:
        return self._secrets.rotate(wanted["id"], wanted["value"], now)

    def _describe_secret(self, wanted: Mapping[str, str], now: int) -> object:
        return self._secrets.describe(wanted["id"], wanted["description"], now)

    def _save(self, wanted: Mapping[str, object] | None) -> object:
        if wanted is None:
            raise Refusal(400, "input is required")
        return self._templates.save(wanted)


def _guarded(may: Callable[[str], bool], scope: str, call: _Resolver, **given: object) -> object:
    """Raises Refusal 403 where the sender lacks the permission."""
    if not may(scope):
        raise Refusal(403, "access denied")
    return call(**given)


def _resolve(source: Any, info: GraphQLResolveInfo[Any], **arguments: object) -> object:
    """A member of a mapping, or of a record by its name on the wire; called if it is a function."""
    if isinstance(source, msgspec.Struct):
        source = msgspec.to_builtins(source)
    value = source.get(info.field_name)
    try:
        return value(**arguments) if callable(value) else value
    except Refusal as refusal:
        raise GraphQLError(refusal.error, extensions={"code": CODES[refusal.status]}) from None


def _changes(document: DocumentNode) -> bool:
    operations = (node for node in document.definitions if isinstance(node, OperationDefinitionNode))
    return any(node.operation is OperationType.MUTATION for node in operations)


def _failure(status: int, errors: Sequence[object]) -> Answer:
    return Answer(status=status, body=msgspec.json.encode({"errors": errors}))


def _formatted(error: Exception) -> object:
    if isinstance(error, GraphQLError):
        return error.formatted
    return {"message": f"the body is no GraphQL request: {type(error).__name__}"}
