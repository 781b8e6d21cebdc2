"""Secrets from Python, against the emulator."""

import pytest

from orchestrator.account.templates.secrets import Secret
from orchestrator.account.transport.graphql_client import GraphQLError
from orchestrator.errors import UsageError
from tests.account.accounts import Script, client_of, data, scripted
from tests.emulator.accounts import account

pytestmark = pytest.mark.anyio


async def test_a_secret_is_created_listed_and_deleted() -> None:
    """contract, secrets: `secretCreate`, `secretDelete`."""
    subject = account(strict=True)
    client = client_of(subject)
    secret = await client.secrets.create("hf", 'v"al\nue')
    assert secret == Secret(id=secret.id, name="hf", description=None)
    described = await client.secrets.create("other", "value", description="what for")
    assert described.description == "what for"
    assert await client.secrets.list() == (secret, described)
    assert subject.secrets.resolve({"A": "{{ RUNPOD_SECRET_hf }}"}) == {"A": 'v"al\nue'}
    await client.secrets.delete(secret.id)
    assert await client.secrets.list() == (described,)
    with pytest.raises(GraphQLError, match="secret not found"):
        await client.secrets.delete(secret.id)


async def test_input_is_name_and_value_only() -> None:
    """contract, `secretCreate`."""
    script = Script(data(secretCreate={"id": "i", "name": "n", "description": None}))
    await scripted(script).secrets.create("n", "v")
    assert script.query == 'mutation { secretCreate(input: {name: "n", value: "v"}) { id name description } }'


@pytest.mark.parametrize(("name", "value"), [("", "v"), ("a b", "v"), ("a}", "v"), ("n", "")])
async def test_what_cannot_be_a_secret_is_not_sent(name: str, value: str) -> None:
    script = Script(data())
    with pytest.raises(UsageError):
        await scripted(script).secrets.create(name, value)
    with pytest.raises(UsageError):
        await scripted(script).secrets.delete("")
    assert not script.requests
