"""From what the user chose to the request that the program is given; what can be refused before anything is opened, is.

Every refusal is a `UsageError` that names the place (flag, variable or key) and what to do.
"""

import itertools
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import SplitResult, urlsplit

from orchestrator.cli.config import Choices
from orchestrator.cli.failures import API_KEY_VARIABLES
from orchestrator.core.admission import QueueDepth
from orchestrator.core.loopback import leads_to_loopback
from orchestrator.core.pacing import CONTRACT_LIMITS, Limit, Operation, Pacing, parse_limit
from orchestrator.core.policy import (
    EXECUTION_TIMEOUT_MS_DEFAULT,
    TTL_MS_DEFAULT,
    Policy,
    format_duration,
    parse_duration,
    policy_problems,
)
from orchestrator.errors import UsageError
from orchestrator.formats.replace import same_file
from orchestrator.settings import (
    BODY_BYTES_MAX_DEFAULT,
    PRIORITY_MAX,
    PRIORITY_MIN,
    SERVERLESS_URL_DEFAULT,
    ConnectionSettings,
    OnExpired,
    OnStuck,
    OnUncertain,
    RunRequest,
    RunSettings,
    VerifyRequest,
)
from orchestrator.units import MILLISECOND_US
from orchestrator.web.addresses import parse_address, webhook_base_url

LEDGER_DEFAULT: Final = Path("orchestrator.db")
STANDARD_INPUT: Final = "-"
LOCAL: Final = "local:"
"""What an endpoint begins with that is a function of the user's, run by the embedded emulator."""

RESUME_KEYS: Final = (
    "ledger",
    "output",
    "errors",
    "listen",
    "webhook-url",
    "limit",
    "pacing",
    "requests-per-worker",
)
"""What belongs to a process rather than to its run: the next one has to be told again."""

ATTEMPTS_MAX: Final = 1_000
QUEUE_DEPTH_MAX: Final = 10_000_000
NAME_CHARACTERS_MAX: Final = 200
WHOLE_MAX: Final = 1_000_000_000
RETENTION_US_MIN: Final = 1_000_000

_OTHERWISE: Final = "\nor run without an account: --endpoint local:FILE.py:FUNCTION"

_WHOLE: Final = re.compile(r"\s*-?[0-9]{1,18}\s*")
_ENDPOINT: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")

E = TypeVar("E", bound=StrEnum)


def run_request(source: str, choices: Choices, environment: Mapping[str, str]) -> RunRequest:
    """What `orchestrator run` asks for. Raises `UsageError`."""
    endpoint = choices.parsed("endpoint", _parse_endpoint)
    if endpoint is None:
        raise UsageError(
            "--endpoint is missing; give your endpoint's id, or local:FILE.py:FUNCTION for a function of yours"
        )
    named = choices.parsed("name", _parse_name)
    serverless_url = choices.parsed("serverless-url", parse_service_url) or SERVERLESS_URL_DEFAULT
    local = endpoint.startswith(LOCAL)
    _check_listener(choices, loopback=local or leads_to_loopback(serverless_url))
    output, errors = _outputs(choices)
    settings = _settings(choices)
    request = RunRequest(
        name=named or _name_of(source),
        named=named is not None,
        source=source,
        endpoint=endpoint,
        ledger=ledger_of(choices),
        output=output,
        errors=errors,
        connection=_connection(choices, serverless_url, api_key(environment, needed=not local, otherwise=_OTHERWISE)),
        settings=settings,
        body_bytes_max=choices.parsed("body-bytes-max", whole(1)) or BODY_BYTES_MAX_DEFAULT,
        retry_failed=choices.switch("retry-failed"),
        flags=choices.flags(RESUME_KEYS),
    )
    _check_files(request)
    return request


def resume_request(name: str, choices: Choices, environment: Mapping[str, str]) -> RunRequest:
    """What `orchestrator resume` asks for: endpoint, service and settings stay the run's. Raises `UsageError`."""
    if choices.parsed("webhook-url", webhook_base_url) and not choices.parsed("listen", _parse_listen):
        _refuse_webhook_url(choices)
    output, errors = _outputs(choices)
    request = RunRequest(
        name=name,
        source=None,
        endpoint=None,
        ledger=ledger_of(choices),
        output=output,
        errors=errors,
        connection=_connection(choices, SERVERLESS_URL_DEFAULT, api_key(environment, needed=False)),
        retry_failed=choices.switch("retry-failed"),
        flags=choices.flags(RESUME_KEYS),
    )
    _check_files(request)
    return request


def verify_request(choices: Choices) -> VerifyRequest:
    """What `orchestrator verify` asks for. Raises `UsageError`."""
    output, errors = _outputs(choices)
    return VerifyRequest(
        ledger=ledger_of(choices), name=choices.parsed("name", _parse_name), output=output, errors=errors
    )


def ledger_of(choices: Choices) -> Path:
    """The ledger's path."""
    return choices.parsed("ledger", _parse_path) or LEDGER_DEFAULT


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


def warnings(request: RunRequest) -> tuple[str, ...]:
    """What is allowed and probably not meant."""
    found = []
    policy = request.settings.policy if request.settings else Policy()
    ttl_ms = policy.ttl_ms or TTL_MS_DEFAULT
    timeout_ms = policy.execution_timeout_ms or EXECUTION_TIMEOUT_MS_DEFAULT
    if ttl_ms < timeout_ms:
        found.append(
            f"the TTL ({format_duration(ttl_ms * MILLISECOND_US)}) is shorter than the execution timeout"
            f" ({format_duration(timeout_ms * MILLISECOND_US)}):"
            " the service deletes a job at its TTL, even while it runs"
        )
    if request.connection.api_key and (open_way := key_warning(request.connection.serverless_url)):
        found.append(open_way)
    return tuple(found)


def key_warning(url: str) -> str | None:
    """What to say where an API key goes to `url`; None where all is well."""
    if not url.startswith("http:") or leads_to_loopback(url):
        return None
    return f"the API key travels unencrypted to {url}; use https:// if the service offers it"


def _parse_endpoint(text: str) -> str:
    if text.startswith(LOCAL):
        file, _, function = text.removeprefix(LOCAL).rpartition(":")
        if not file or not function.isidentifier():
            raise ValueError(f'"{text}" names no function; write local:FILE.py:FUNCTION')
    elif not _ENDPOINT.fullmatch(text):
        raise ValueError(f'"{text:.80}" is no endpoint id; write the id alone, or local:FILE.py:FUNCTION')
    return text


def _parse_name(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > NAME_CHARACTERS_MAX:
        raise ValueError(f"a run's name has 1 to {NAME_CHARACTERS_MAX} printable characters")
    return text


def _name_of(source: str) -> str:
    if source == STANDARD_INPUT:
        raise UsageError("standard input has no name; give the run one with --name")
    try:
        return _parse_name(Path(source).stem)
    except ValueError:
        raise UsageError(f"{source!r} gives no name for the run; choose one with --name") from None


def parse_service_url(text: str) -> str:
    """The URL of the job interface without a slash at its end. Raises `ValueError`."""
    return parse_interface_url(text, added="/v2")


def parse_interface_url(text: str, *, added: str) -> str:
    """A URL of the service without a slash at its end; `added` is what the client adds. Raises `ValueError`."""
    parts = _split(text)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("this is no URL; write https://HOST or http://HOST:PORT")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "the URL must not hold a password, a query (?) or a fragment (#); the API key comes from the environment"
        )
    if added and parts.path.rstrip("/").endswith(added):
        raise ValueError(f"leave {added} out of the URL; it is added")
    return text.rstrip("/")


def _split(url: str) -> SplitResult | None:
    if not url.isascii() or not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    return parts


def _check_listener(choices: Choices, *, loopback: bool) -> None:
    listen = choices.parsed("listen", _parse_listen)
    webhook_url = choices.parsed("webhook-url", webhook_base_url)
    if webhook_url and not listen:
        _refuse_webhook_url(choices)
    if listen and not webhook_url and not loopback:
        raise UsageError(
            f"{choices.origin('listen')} needs --webhook-url: the URL under which the service reaches this machine."
            "\nWithout a reachable URL leave both out; results are then polled"
        )


def _refuse_webhook_url(choices: Choices) -> None:
    raise UsageError(
        f"{choices.origin('webhook-url')} needs --listen HOST:PORT: nobody would be there to take the webhooks"
    )


def _parse_listen(text: str) -> str:
    return str(parse_address(text))


def _outputs(choices: Choices) -> tuple[Path | None, Path | None]:
    output = choices.parsed("output", _parse_output)
    errors = choices.parsed("errors", _parse_output)
    if output is None:
        if errors is not None:
            raise UsageError(f"{choices.origin('errors')} needs --output: the two files are written together")
        return None, None
    if errors is None and output.exists() and not output.is_file() and not output.is_dir():
        raise UsageError(f"{choices.origin('output')}: {output} is no file to put another beside; give --errors too")
    return output, errors or output.parent / f"{output.name}.errors.jsonl"  # with_name refuses "." and "/"


def _parse_path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError("this is no file name")
    return Path(text)


def _parse_output(text: str) -> Path:
    if text == STANDARD_INPUT:  # a habit from other programs: the rows would land in a file of that name
        raise ValueError("standard output is /dev/stdout, and a file of that name ./-")
    return _parse_path(text)


def _connection(choices: Choices, serverless_url: str, key: str) -> ConnectionSettings:
    return ConnectionSettings(
        serverless_url=serverless_url,
        api_key=key,
        listen=choices.parsed("listen", _parse_listen),
        webhook_url=choices.parsed("webhook-url", webhook_base_url),
        limits=limits_of(choices),
        pacing=choices.parsed("pacing", _parse_pacing) or "even",
        requests_per_worker=choices.parsed("requests-per-worker", whole(1)),
    )


def limits_of(choices: Choices) -> Mapping[Operation, Limit]:
    """The limits to keep: the contract's, where nothing else was chosen."""
    given = choices.each("limit", parse_limit)
    limits = dict(given)
    if len(limits) < len(given):
        raise UsageError(f"{choices.origin('limit')}: an operation is named twice; give each one limit")
    return {**CONTRACT_LIMITS, **limits}


def _parse_pacing(text: str) -> Pacing:
    match text:
        case "even" | "window":
            return text
        case _:
            raise ValueError(f'"{text:.40}" is no pacing; there are even and window')


def _settings(choices: Choices) -> RunSettings:
    unset = RunSettings()
    return RunSettings(
        policy=policy_of(choices),
        max_attempts=choices.parsed("max-attempts", whole(1, ATTEMPTS_MAX)) or unset.max_attempts,
        retention_us=choices.parsed("result-retention", _parse_retention) or unset.retention_us,
        on_uncertain=choices.parsed("on-uncertain", _one_of(OnUncertain)) or unset.on_uncertain,
        uncertain_after_us=choices.parsed("uncertain-after", parse_duration),
        on_expired=choices.parsed("on-expired", _one_of(OnExpired)) or unset.on_expired,
        on_stuck=choices.parsed("on-stuck", _one_of(OnStuck)) or unset.on_stuck,
        events_kept_us=choices.parsed("events-kept", parse_duration) or unset.events_kept_us,
        stop_after_failures=choices.parsed("stop-after-failures", whole(1)),
        queue_depth=choices.parsed("queue-depth", _parse_depth) or unset.queue_depth,
        priority=choices.parsed("priority", whole(PRIORITY_MIN, PRIORITY_MAX)) or unset.priority,
        output_required=choices.switch("output-required"),
    )


def _parse_depth(text: str) -> QueueDepth:
    match text:
        case "auto" | "off":
            return text
        case _ if text.isascii() and text.isdecimal() and 0 < int(text[:10]) <= QUEUE_DEPTH_MAX:
            return int(text)
        case _:
            raise ValueError(
                f'"{text:.40}" is no queue depth; write auto, off, or a number from 1 to {QUEUE_DEPTH_MAX:,}'
            )


def policy_of(choices: Choices) -> Policy:
    """The execution policy, with every number inside the service's bounds."""
    return Policy(
        execution_timeout_ms=choices.parsed(
            "execution-timeout", _milliseconds(lambda ms: Policy(execution_timeout_ms=ms))
        ),
        ttl_ms=choices.parsed("ttl", _milliseconds(lambda ms: Policy(ttl_ms=ms))),
        low_priority=choices.switch("low-priority") or None,
    )


def _milliseconds(policy_with: Callable[[int], Policy]) -> Callable[[str], int]:
    def parse(text: str) -> int:
        milliseconds = parse_duration(text) // MILLISECOND_US
        if problems := policy_problems(policy_with(milliseconds)):
            raise ValueError("; ".join(problems))
        return milliseconds

    return parse


def _parse_retention(text: str) -> int:
    duration_us = parse_duration(text)
    if duration_us < RETENTION_US_MIN:
        raise ValueError(f"a result is kept for {format_duration(RETENTION_US_MIN)} at least")
    return duration_us


def whole(least: int, most: int = WHOLE_MAX) -> Callable[[str], int]:
    """Reads whole numbers from `least` to `most`; the reader raises `ValueError`."""

    def parse(text: str) -> int:
        number = int(text) if _WHOLE.fullmatch(text) else least - 1
        if not least <= number <= most:
            raise ValueError(f'"{text:.40}" is no whole number from {least} to {most}')
        return number

    return parse


def _one_of(kind: type[E]) -> Callable[[str], E]:
    def parse(text: str) -> E:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f'"{text:.40}" is none of {", ".join(kind)}') from None

    return parse


def _check_files(request: RunRequest) -> None:
    """No file may be two things at once: writing one would destroy the other."""
    files = [("the ledger", request.ledger)]
    if request.source is not None and request.source != STANDARD_INPUT:
        files.append(("the input", Path(request.source)))
    if request.output is not None and request.errors is not None:
        files += [("--output", request.output), ("--errors", request.errors)]
    for (first, first_path), (second, second_path) in itertools.combinations(files, 2):
        if same_file(first_path, second_path):
            raise UsageError(f"{second} and {first} are the same file, {second_path}; choose another for one of them")
