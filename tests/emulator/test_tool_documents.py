"""What the official tools ask by GraphQL, in documents of the same fields: their command line, Pulumi, the MCP server.

The Python SDK, `runpod-flash` and the packages for JavaScript are tried themselves (`tests/tools`).
"""

import logging
from typing import Any

import pytest

from tests.emulator.accounts import Bare, Stopped, account

pytestmark = pytest.mark.anyio

GPU = "NVIDIA GeForce RTX 4090"

SAVE_ENDPOINT = """mutation E($input: EndpointInput!) { saveEndpoint(input: $input) {
  id name templateId gpuIds instanceIds computeType networkVolumeId networkVolumeIds { networkVolumeId dataCenterId }
  locations idleTimeout scalerType scalerValue workersMin workersMax gpuCount minCudaVersion executionTimeoutMs
  flashBootType modelReferences template { name imageName env { key value } }
} }"""

SAVE_TEMPLATE = """mutation T($id: String, $disk: Int!, $args: String!, $env: [EnvironmentVariableInput!]!, $image: String!,
  $name: String!, $volume: Int!) { saveTemplate(input: {id: $id, containerDiskInGb: $disk, dockerArgs: $args, env: $env,
  imageName: $image, name: $name, volumeInGb: $volume}) { id imageName name isRunpod boundEndpointId } }"""

DEPLOY = """mutation D($cloud: CloudTypeEnum, $disk: Int, $env: [EnvironmentVariableInput], $count: Int, $gpu: String,
  $image: String, $name: String, $port: Port, $ports: String, $stop: DateTime, $plan: SavingsPlanInput, $volume: Int,
  $path: String) { podFindAndDeployOnDemand(input: {cloudType: $cloud, containerDiskInGb: $disk, env: $env,
  gpuCount: $count, gpuTypeId: $gpu, imageName: $image, name: $name, port: $port, ports: $ports, stopAfter: $stop,
  savingsPlan: $plan, volumeInGb: $volume, volumeMountPath: $path}) { id imageName machineId containerDiskInGb } }"""

EDIT = """mutation E($id: String!, $image: String!, $env: [EnvironmentVariableInput], $ports: String, $disk: Int!) {
  podEditJob(input: {podId: $id, imageName: $image, env: $env, ports: $ports, containerDiskInGb: $disk}) { id } }"""

PODS = """{ myself { pods { id name imageName desiredStatus env gpuCount ports volumeInGb volumeMountPath costPerHr
  dockerArgs podType vcpuCount memoryInGb containerDiskInGb uptimeSeconds lastStatusChange
  machine { gpuDisplayName location podHostId } runtime { ports { ip isIpPublic privatePort publicPort type } } } } }"""


async def deployed(bare: Bare, **change: Any) -> str:
    wanted = {"name": "p", "image": "me/t:1", "gpu": GPU, "count": 1, "disk": 20, **change}
    pod: str = (await bare.data(DEPLOY, **wanted))["podFindAndDeployOnDemand"]["id"]
    return pod


async def test_an_endpoint_is_saved_with_its_template_inside_and_changed() -> None:
    bare = Bare(account())
    template = {"name": "own", "imageName": "me/worker:1", "containerDiskInGb": 10, "dockerArgs": "", "env": []}
    wanted = {"name": "e", "gpuIds": "ADA_24", "workersMax": 2, "minCudaVersion": "12.8", "template": template}
    saved = (await bare.data(SAVE_ENDPOINT, input=wanted))["saveEndpoint"]
    assert (saved["gpuIds"], saved["minCudaVersion"], saved["computeType"]) == ("ADA_24", "12.8", "GPU")
    assert saved["template"] == {"name": "own", "imageName": "me/worker:1", "env": []}
    volumes = {"id": saved["id"], "name": "e", "networkVolumeIds": [{"networkVolumeId": "v"}]}
    changed = (await bare.data(SAVE_ENDPOINT, input=volumes))["saveEndpoint"]
    assert (changed["networkVolumeIds"], changed["workersMax"]) == (
        [{"networkVolumeId": "v", "dataCenterId": None}],
        2,
    )
    ask = "query($id: String!) { myself { endpoint(id: $id) { id } } }"
    assert (await bare.data(ask, id=saved["id"]))["myself"]["endpoint"] == {"id": saved["id"]}
    assert (await bare.data(ask, id="no"))["myself"]["endpoint"] is None
    link = "mutation($input: UpdateEndpointTemplateInput) { updateEndpointTemplate(input: $input) { id templateId } }"
    given = {"endpointId": saved["id"], "templateId": saved["templateId"]}
    assert (await bare.data(link, input=given))["updateEndpointTemplate"]["templateId"] == saved["templateId"]
    assert "image name cannot be empty" in await bare.reason(
        SAVE_ENDPOINT, input={"name": "x", "template": {"name": "y", "imageName": ""}}
    )


async def test_a_template_is_saved_by_variables_of_every_type() -> None:
    bare = Bare(account())
    given = {"disk": 5, "args": "", "env": [{"key": "A", "value": "1"}], "image": "me/t:1", "name": "t", "volume": 20}
    saved = (await bare.data(SAVE_TEMPLATE, **given))["saveTemplate"]
    assert (saved["name"], saved["isRunpod"], saved["boundEndpointId"]) == ("t", None, None)
    assert (await bare.data("{ podTemplates(input: {isRunpod: true}) { id } }")) == {"podTemplates": []}


async def test_a_pod_is_deployed_shown_edited_stopped_resumed_and_terminated() -> None:
    bare = Bare(account())
    given = {
        "cloud": "ALL",
        "env": [{"key": "A", "value": "1"}],
        "ports": "22/tcp, 80/http",
        "volume": 20,
        "path": "/w",
    }
    pod_id = await deployed(bare, **given)
    (pod,) = (await bare.data(PODS))["myself"]["pods"]
    assert (pod["id"], pod["desiredStatus"], pod["env"], pod["ports"]) == (pod_id, "RUNNING", ["A=1"], "22/tcp,80/http")
    assert (pod["volumeInGb"], pod["volumeMountPath"], pod["machine"]["gpuDisplayName"]) == (20, "/w", GPU)
    await bare.data(EDIT, id=pod_id, image="me/t:2", env=[{"key": "B", "value": "2"}], ports="80/http", disk=30)
    one = "query($id: String!) { pod(input: {podId: $id}) { imageName env containerDiskInGb } }"
    assert (await bare.data(one, id=pod_id))["pod"] == {
        "imageName": "me/t:2",
        "env": ["B=2"],
        "containerDiskInGb": 30,
    }
    act = "mutation($id: String!) {{ {0}(input: {{podId: $id}}) {1} }}"
    assert (await bare.data(act.format("podStop", "{ desiredStatus }"), id=pod_id))["podStop"] == {
        "desiredStatus": "EXITED"
    }
    assert "not valid for status EXITED" in await bare.reason(act.format("podStop", "{ id }"), id=pod_id)
    assert (await bare.data(act.format("podResume", "{ desiredStatus }"), id=pod_id))["podResume"] == {
        "desiredStatus": "RUNNING"
    }
    assert await bare.data(act.format("podTerminate", ""), id=pod_id) == {"podTerminate": None}
    assert (await bare.data(one, id=pod_id))["pod"] is None
    assert await bare.reason(act.format("podTerminate", ""), id=pod_id) == "resource not found"


async def test_a_running_pod_shows_its_ports_and_a_cpu_pod_its_size() -> None:
    clock = Stopped()
    bare = Bare(account(clock))
    await deployed(bare, ports="22/tcp")
    cpu = 'mutation { deployCpuPod(input: {name: "web", imageName: "me/web:1", instanceId: "cpu5c-4-8", %s}) { id } }'
    await bare.data(cpu % 'templateId: "runpod-ubuntu", networkVolumeId: "v", dataCenterId: "EMU-1"')
    clock.at += 60_000_000
    gpu, web = (await bare.data(PODS))["myself"]["pods"]
    assert [port["privatePort"] for port in gpu["runtime"]["ports"]] == [22]
    assert (web["gpuCount"], web["vcpuCount"], web["volumeMountPath"]) == (0, 4.0, "/workspace")
    assert "want integer" in await bare.reason(cpu.replace("cpu5c-4-8", "cpu5c-x") % 'countryCode: "DE"')


async def test_the_user_the_catalog_and_registries() -> None:
    bare = Bare(account(gpus=("NVIDIA L4",)))
    user = (await bare.data("{ myself { id email clientBalance spendLimit networkVolumes { id } pubKey } }"))["myself"]
    assert (user["networkVolumes"], user["pubKey"]) == ([], "")
    changed = await bare.data('mutation { updateUserSettings(input: {pubKey: "ssh-ed25519 A"}) { pubKey } }')
    assert changed["updateUserSettings"] == {"pubKey": "ssh-ed25519 A"}
    gpus = """query($type: GpuTypeFilter, $price: GpuLowestPriceInput) { gpuTypes(input: $type) { id memoryInGb
      lowestPrice(input: $price) { stockStatus uninterruptablePrice gpuTypeCudaVersions { cudaVersion } } } }"""
    given = {"type": {"ids": ["NVIDIA L4", GPU]}, "price": {"gpuCount": 2, "secureCloud": True}}
    found = {gpu["id"]: gpu["lowestPrice"] for gpu in (await bare.data(gpus, **given))["gpuTypes"]}
    assert (found["NVIDIA L4"]["stockStatus"], found[GPU]["stockStatus"]) == ("High", None)
    assert found["NVIDIA L4"]["uninterruptablePrice"] == 2.0
    (place,) = (await bare.data("{ dataCenters { id gpuAvailability { gpuTypeId stockStatus } } }"))["dataCenters"]
    assert [each["gpuTypeId"] for each in place["gpuAvailability"] if each["stockStatus"]] == ["NVIDIA L4"]
    pools = (await bare.data("{ serverlessGpuPools { id gpuTypeIds } }"))["serverlessGpuPools"]
    assert {"id": "ADA_24", "gpuTypeIds": [GPU]} in pools
    flavors = await bare.data('{ cpuFlavors(input: {id: "cpu3c"}) { id specifics { stockStatus } } }')
    assert flavors["cpuFlavors"] == [{"id": "cpu3c", "specifics": {"stockStatus": "High"}}]
    save = 'mutation { saveRegistryAuth(input: {name: "hub", username: "u", password: "p"}) { id name } }'
    registry = (await bare.data(save))["saveRegistryAuth"]["id"]
    assert await bare.reason(save) == "registry auth name must be unique: hub"
    assert (await bare.data("{ myself { containerRegistryCreds { name } } }"))["myself"] == {
        "containerRegistryCreds": [{"name": "hub"}]
    }
    delete = f'mutation {{ deleteRegistryAuth(registryAuthId: "{registry}") }}'
    assert await bare.data(delete) == {"deleteRegistryAuth": None}
    assert await bare.reason(delete) == "registry auth not found"


async def test_what_everybody_may_know_takes_no_key_and_nothing_else_does() -> None:
    http = Bare(account()).http

    async def asked(query: str, path: str = "/graphql/public", **headers: str) -> Any:
        return (await http.post(path, json={"query": query}, headers=headers)).json()

    assert len((await asked("{ gpuTypes { id } }"))["data"]["gpuTypes"]) > 5
    for query in ("{ myself { id } }", 'mutation { updateUserSettings(input: {pubKey: "x"}) { id } }'):
        assert (await asked(query))["errors"][0]["message"] == "access denied"
    assert (await asked("{ gpuTypes { id } }", "/graphql"))["errors"] == [{"message": "unauthorized"}]


async def test_documents_are_taken_at_the_url_of_v1_too_where_pulumi_has_its_only_variable() -> None:
    bare = Bare(account())
    assert await bare.rest("POST", "", {"query": "{ myself { id } }"}) == (
        200,
        {"data": {"myself": {"id": "user_emulated"}}},
    )


async def test_what_a_document_asks_for_in_vain_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    bare = Bare(account())
    for query in ("{ listings { id } }", "{ listings { id } }", "{ myself { flashApps { id } } }", "{ myself"):
        assert (await bare.graphql(query))[0] == 400
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "the emulator does not serve by GraphQL: Cannot query field 'listings' on type 'Query'.",
        "the emulator does not serve by GraphQL: Cannot query field 'flashApps' on type 'User'.",
    ]
