"""Templates and secrets as the emulator serves them: raw documents, by the contract."""

import pytest

from orchestrator.units import SECOND_US
from tests.emulator.accounts import KEY, SAVE, TEMPLATE, Bare, Stopped, account

pytestmark = pytest.mark.anyio

LIST = "{ myself { podTemplates { id name } secrets { id name description } } }"


async def test_a_template_is_created_with_the_fields_that_were_selected() -> None:
    """contract, templates: `saveTemplate`."""
    mutation = """mutation { saveTemplate(input: {name: "t", imageName: "a:1", containerDiskInGb: 5, volumeInGb: 20,
        dockerArgs: "run", env: [{key: "A", value: "1"}], ports: "8888/http,22/tcp", readme: "r",
        volumeMountPath: "/w", containerRegistryAuthId: "c"}) { id name imageName containerDiskInGb volumeInGb dockerArgs
        ports env { key value } readme volumeMountPath isServerless } }"""
    saved = (await Bare(account()).data(mutation))["saveTemplate"]
    assert saved.pop("id")
    assert saved == {
        "name": "t",
        "imageName": "a:1",
        "containerDiskInGb": 5,
        "volumeInGb": 20,
        "dockerArgs": "run",
        "ports": "8888/http,22/tcp",
        "env": [{"key": "A", "value": "1"}],
        "readme": "r",
        "volumeMountPath": "/w",
        "isServerless": False,
    }


async def test_a_name_that_exists_is_refused() -> None:
    """contract, templates: "creating a template whose name already exists fails"."""
    bare = Bare(account())
    await bare.data(SAVE, input=TEMPLATE)
    status, answer = await bare.graphql(SAVE, input=TEMPLATE)
    assert status == 200
    assert answer["data"] == {"saveTemplate": None}
    assert answer["errors"][0]["message"] == "template name must be unique: t"
    assert answer["errors"][0]["path"] == ["saveTemplate"]


async def test_with_an_id_the_template_is_modified() -> None:
    """contract, templates: "the same mutation with `id`"; its own name is not taken."""
    bare = Bare(account())
    saved = (await bare.data(SAVE, input=TEMPLATE))["saveTemplate"]
    changed = await bare.data(SAVE, input={**TEMPLATE, "id": saved["id"], "env": [{"key": "A", "value": "b"}]})
    assert changed["saveTemplate"] == {**saved, "env": [{"key": "A", "value": "b"}]}
    assert await bare.reason(SAVE, input={**TEMPLATE, "id": "nowhere"}) == "template not found"


@pytest.mark.parametrize("missing", ["name", "imageName", "containerDiskInGb", "volumeInGb"])
async def test_required_fields_are_required_also_to_modify(missing: str) -> None:
    """contract, templates, rule 2."""
    wanted = {key: value for key, value in TEMPLATE.items() if key != missing}
    status, answer = await Bare(account()).graphql(SAVE, input={**wanted, "id": "x"})
    assert status == 400
    assert missing in answer["errors"][0]["message"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"volumeInGb": 20}, "a serverless template cannot have a volume: volumeInGb must be 0"),
        ({"containerDiskInGb": 0}, "disk sizes are too small"),
        ({"name": ""}, "template name and image name cannot be empty"),
    ],
)
async def test_a_broken_rule_is_refused(change: dict[str, object], reason: str) -> None:
    """contract, templates, rule 1."""
    assert await Bare(account()).reason(SAVE, input={**TEMPLATE, **change}) == reason


async def test_deletion_is_by_name_and_gives_null() -> None:
    """contract, templates: `deleteTemplate`."""
    bare = Bare(account())
    await bare.data(SAVE, input=TEMPLATE)
    assert await bare.data('mutation { deleteTemplate(templateName: "t") }') == {"deleteTemplate": None}
    assert (await bare.data(LIST))["myself"]["podTemplates"] == []
    assert await bare.reason('mutation { deleteTemplate(templateName: "t") }') == "template not found"


async def test_a_template_in_use_is_not_deleted_nor_for_two_minutes_after() -> None:
    """contract, templates, Deletion rule."""
    clock = Stopped()
    subject = account(clock)
    bare = Bare(subject)
    template = (await bare.data(SAVE, input=TEMPLATE))["saveTemplate"]["id"]
    delete = 'mutation { deleteTemplate(templateName: "t") }'
    subject.templates.use(template, "pod")
    assert await bare.reason(delete) == "template t is in use by a pod or an endpoint"
    subject.templates.release(template, "pod", clock.now())
    subject.templates.release(template, "pod", clock.now() + SECOND_US)  # released once is released
    clock.at += 120 * SECOND_US - 1
    assert await bare.reason(delete) == "template t was in use a moment ago; try again in 2 minutes"
    clock.at += 1
    await bare.data(delete)


async def test_a_secret_is_created_listed_and_deleted_and_its_value_never_shown() -> None:
    """contract, secrets: `secretCreate`, `secretDelete`; `value` is input only."""
    bare = Bare(account())
    created = await bare.data('mutation { secretCreate(input: {name: "n", value: "v"}) { id name description } }')
    secret = created["secretCreate"]
    assert secret == {"id": secret["id"], "name": "n", "description": None}
    assert (await bare.data(LIST))["myself"]["secrets"] == [secret]
    assert "value" in await bare.reason("{ myself { secrets { value } } }")
    assert await bare.reason('mutation { secretCreate(input: {name: "n", value: "w"}) { id } }') == (
        "secret name must be unique: n"
    )
    delete = "mutation($id: ID!) { secretDelete(id: $id) }"
    assert await bare.data(delete, id=secret["id"]) == {"secretDelete": None}
    assert await bare.reason(delete, id=secret["id"]) == "secret not found"
    assert await bare.reason('mutation { secretCreate(input: {name: "", value: "v"}) { id } }') == (
        "secret name cannot be empty"
    )


async def test_a_templates_environment_has_the_values_of_the_secrets_it_names() -> None:
    """as observed: `{{ RUNPOD_SECRET_name }}`; a name without a secret stays as written (our choice)."""
    subject = account()
    env = {
        "A": "{{ RUNPOD_SECRET_n }}",
        "B": "x{{RUNPOD_SECRET_n}}y {{ RUNPOD_SECRET_m }}",
        "C": "plain",
    }
    wanted = {**TEMPLATE, "env": [{"key": key, "value": value} for key, value in env.items()]}
    template = subject.templates.save(wanted)
    subject.secrets.create("n", r"se\1cret", None, 0)
    assert subject.templates.resolve_environment(template) == {
        "A": r"se\1cret",
        "B": r"xse\1crety {{ RUNPOD_SECRET_m }}",
        "C": "plain",
    }


async def test_a_document_is_really_parsed() -> None:
    """Aliases, fragments, directives, several operations by name, variables with defaults."""
    bare = Bare(account())
    await bare.data(SAVE, input=TEMPLATE)
    query = """query One { myself { id } }
        query Two($with: Boolean = false) { me: myself { podTemplates { ...F id @include(if: $with) } } }
        fragment F on PodTemplate { title: name }"""
    answer = await bare.http.post(
        "/graphql", params={"api_key": KEY}, json={"query": query, "operationName": "Two", "variables": None}
    )
    assert answer.json() == {"data": {"me": {"podTemplates": [{"title": "t"}]}}}
    id_ = (await bare.data(LIST))["myself"]["podTemplates"][0]["id"]
    assert await bare.data(f'{{ podTemplate(id: "{id_}") {{ name }} }}') == {"podTemplate": {"name": "t"}}
    assert await bare.data('{ podTemplate(id: "no") { name } }') == {"podTemplate": None}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{ myself { nickname } }", "Cannot query field 'nickname' on type 'User'."),
        ("{ myself", "Syntax Error: Expected Name, found <EOF>."),
        ("{ __schema { types { name } } }", "GraphQL introspection"),
        ("mutation { saveTemplate { id } }", None),
        ("{" * 2000, "Syntax Error"),
        ("{ myself { id " + "id " * 10_000 + "} }", "Syntax Error: Document contains more"),
        ('mutation { deleteTemplate(templateName: "a") { id } }', "must not have a selection"),
        ("mutation { secretCreate { id } }", "is required, but it was not provided"),
    ],
)
async def test_a_document_that_does_not_fit_is_a_graphql_error(document: str, message: str | None) -> None:
    status, answer = await Bare(account()).graphql(document)
    if message is None:
        assert (status, answer["errors"][0]["message"]) == (200, "input is required")
    else:
        assert status == 400
        assert message in answer["errors"][0]["message"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"query":1}', b'{"query":"{a}","variables":3}', b"\xff"])
async def test_a_body_that_is_no_request_is_a_400(body: bytes) -> None:
    answer = await Bare(account()).http.post("/graphql", params={"api_key": KEY}, content=body)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["message"].startswith("the body is no GraphQL request")


async def test_the_key_comes_in_the_url_or_as_a_bearer() -> None:
    """contract, templates, Authentication 1; that a bearer header is taken too is observed."""
    http = Bare(account()).http
    body = {"query": "{ myself { id } }"}
    assert (await http.post("/graphql", params={"api_key": KEY}, json=body)).status_code == 200
    assert (await http.post("/graphql", headers={"authorization": f"Bearer {KEY}"}, json=body)).status_code == 200
    assert (await http.post("/graphql", headers={"authorization": KEY}, json=body)).status_code == 200
    for empty in ("Bearer ", "Bearer", " "):
        answer = await http.post("/graphql", params={"api_key": KEY}, headers={"authorization": empty}, json=body)
        assert answer.status_code == 200
    for params, headers in ({}, {}), ({"api_key": "wrong"}, {}), ({"api_key": KEY}, {"authorization": "Bearer wrong"}):
        answer = await http.post("/graphql", params=params, headers=headers, json=body)
        assert (answer.status_code, answer.json()) == (401, {"errors": [{"message": "unauthorized"}]})


async def test_a_body_that_is_too_long_is_refused() -> None:
    answer = await Bare(account()).http.post("/graphql", params={"api_key": KEY}, content=b" " * (1024 * 1024 + 1))
    assert answer.status_code == 413


@pytest.mark.slow
async def test_the_official_sdks_own_mutation_creates_a_template() -> None:
    """The document that `runpod.create_template` sends, unchanged."""
    from runpod.api.mutations.templates import generate_pod_template  # type: ignore[import-untyped]  # it has no types

    document = generate_pod_template("t", "a:1", 'python -u "h.py"', env={"A": "1"}, ports="22/tcp", is_serverless=True)
    saved = (await Bare(account()).data(document))["saveTemplate"]
    assert (saved["dockerArgs"], saved["isServerless"]) == ('python -u "h.py"', True)
    assert (saved["env"], saved["containerDiskInGb"], saved["volumeInGb"]) == ([{"key": "A", "value": "1"}], 10, 0)


@pytest.mark.slow
async def test_the_official_sdks_own_documents_manage_endpoints() -> None:
    """Those of `runpod.create_endpoint`, `get_endpoints` and `update_endpoint_template`, unchanged."""
    from runpod.api.mutations.endpoints import (  # type: ignore[import-untyped]
        generate_endpoint_mutation,
        update_endpoint_template_mutation,
    )
    from runpod.api.queries.endpoints import QUERY_ENDPOINT  # type: ignore[import-untyped]

    bare = Bare(account())
    template = (await bare.data(SAVE, input=TEMPLATE))["saveTemplate"]["id"]
    other = (await bare.data(SAVE, input={**TEMPLATE, "name": "o"}))["saveTemplate"]["id"]
    document = generate_endpoint_mutation(
        "e", template, "AMPERE_16,ADA_24", flashboot=True, gpu_count=2, locations="EU"
    )
    endpoint = (await bare.data(document))["saveEndpoint"]
    assert (endpoint["gpuIds"], endpoint["gpuCount"], endpoint["workersMax"]) == ("AMPERE_16,ADA_24", 2, 3)
    assert (endpoint["flashBootType"], endpoint["locations"]) == ("FLASHBOOT", "EU")
    await bare.data(update_endpoint_template_mutation(endpoint["id"], other))
    save = "mutation($input: EndpointInput!) { saveEndpoint(input: $input) { flashBootType workersMax idleTimeout } }"
    changed = (await bare.data(save, input={"id": endpoint["id"], "name": "e", "idleTimeout": 9}))["saveEndpoint"]
    assert changed == {"flashBootType": "FLASHBOOT", "workersMax": 3, "idleTimeout": 9}
    (listed,) = (await bare.data(QUERY_ENDPOINT))["myself"]["endpoints"]
    assert (listed["id"], listed["templateId"], listed["version"]) == (endpoint["id"], other, 2)
    assert (await bare.rest("GET", f"/endpoints/{endpoint['id']}"))[1]["gpuTypeIds"] == ["AMPERE_16", "ADA_24"]


async def test_an_endpoint_with_workers_is_not_deleted_by_graphql() -> None:
    """as observed: the numbers of workers must be 0 first."""
    bare = Bare(account())
    template = (await bare.data(SAVE, input=TEMPLATE))["saveTemplate"]["id"]
    save = "mutation($input: EndpointInput!) { saveEndpoint(input: $input) { id } }"
    endpoint = (await bare.data(save, input={"name": "e", "templateId": template}))["saveEndpoint"]["id"]
    delete = f'mutation {{ deleteEndpoint(id: "{endpoint}") }}'
    assert "must be 0 before" in await bare.reason(delete)
    await bare.data(save, input={"id": endpoint, "name": "e", "workersMin": 0, "workersMax": 0})
    assert await bare.data(delete) == {"deleteEndpoint": None}
    assert await bare.reason(delete) == "endpoint not found"
    assert "scalerType" in await bare.reason(save, input={"name": "e", "scalerType": "NONE"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ('imageName: "x"', "image name must have a tag: x"),
        ('imageName: "registry:5000/x"', "image name must have a tag: registry:5000/x"),
        ('imageName: "x:1", ports: "8888"', "ports must be like 8888/http,22/tcp, not 8888"),
        ('imageName: "x:1", ports: "22/tcp,0/http"', "ports must be like 8888/http,22/tcp, not 0/http"),
    ],
)
async def test_a_template_that_our_client_would_refuse_is_refused_there_too(change: str, reason: str) -> None:
    """Contract, Template: `imageName` with tag, `ports` as port/protocol."""
    query = f'mutation {{ saveTemplate(input: {{name: "n", containerDiskInGb: 1, volumeInGb: 0, {change}}}) {{ id }} }}'
    answer = await Bare(account()).http.post("/graphql", params={"api_key": KEY}, json={"query": query})
    assert [error["message"] for error in answer.json()["errors"]] == [reason]
