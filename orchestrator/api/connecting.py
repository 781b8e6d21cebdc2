"""How a process reaches the service, from what was chosen: the API key, and what fits together."""

from collections.abc import Mapping

from orchestrator import declared
from orchestrator.api.config import Choices
from orchestrator.errors import UsageError
from orchestrator.settings import API_KEY_VARIABLES


def api_key(environment: Mapping[str, str], *, needed: bool, otherwise: str = "") -> str:
    """The API key, only ever from the environment; "" where there is none and none is `needed`.

    `otherwise` is what else a user without a key can do.
    """
    for variable in API_KEY_VARIABLES:
        key = environment.get(variable, "").strip()
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise UsageError(f"{variable} holds characters that no API key has; copy the key anew")
        if key:
            return key
    if needed:
        raise UsageError(
            "there is no API key; set it in the environment: export ORCHESTRATOR_API_KEY=... (RUNPOD_API_KEY is"
            f" accepted too; an emulator takes any){otherwise}"
        )
    return ""


def check_listener(choices: Choices, *, loopback: bool) -> None:
    """Listener and webhook URL go together; on `loopback` a listener alone will do. Raises `UsageError`."""
    listen, webhook_url = choices[declared.LISTEN], choices[declared.WEBHOOK_URL]
    if webhook_url and not listen:
        raise UsageError(
            f"{choices.origin(declared.WEBHOOK_URL)} needs {declared.LISTEN} HOST:PORT: nobody would be there to take"
            " the webhooks"
        )
    if listen and not webhook_url and not loopback:
        raise UsageError(
            f"{choices.origin(declared.LISTEN)} needs {declared.WEBHOOK_URL}: the URL under which the"
            " service reaches this machine.\nWithout a reachable URL leave both out; results are then polled"
        )
