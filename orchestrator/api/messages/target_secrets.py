"""What is secret of a target: it stands in the environment, where it may be missing or hold nothing of use."""

import shutil
from collections.abc import Mapping

from orchestrator.core.pipelines.notifications import signing_key
from orchestrator.errors import UsageError
from orchestrator.settings.monitoring.notify_targets import NotifyTarget, Targets
from orchestrator.settings.parsers.service_parsers import parse_hook_url


class SecretMissing(UsageError):
    """A variable that is to hold what is secret of a target is not set, or holds nothing of use."""


def secret_of(reference: str, environ: Mapping[str, str]) -> str:
    """What the variable holds that `env:NAME` names. Raises `SecretMissing`."""
    name = reference.removeprefix("env:")
    if not (value := environ.get(name, "").strip()):
        raise SecretMissing(f"{name} is not set in the environment of this process")
    return value


def url_of(reference: str, environ: Mapping[str, str]) -> str:
    """The URL in that variable. Raises `SecretMissing`."""
    try:
        return parse_hook_url(secret_of(reference, environ))
    except ValueError:
        name = reference.removeprefix("env:")
        raise SecretMissing(f"{name}, which is to hold a URL, holds none") from None


def key_of(reference: str | None, environ: Mapping[str, str]) -> bytes | None:
    """The key that messages are signed with; None where they are not. Raises `SecretMissing`."""
    if reference is None:
        return None
    try:
        return signing_key(secret_of(reference, environ))
    except ValueError as error:
        raise SecretMissing(f"{reference.removeprefix('env:')}: {error}") from None


def check_secrets(target: NotifyTarget, environ: Mapping[str, str]) -> None:
    """Raises `SecretMissing` where something secret of the target is not there."""
    for url in (target.url, target.start, target.fail, target.heartbeat):
        if url is not None:
            url_of(url, environ)
    key_of(target.secret, environ)
    if target.password is not None:
        secret_of(target.password, environ)


def is_program(name: str, targets: Targets, environ: Mapping[str, str]) -> bool:
    """Whether a word that says who is told is a program's name: no target is called so, and there is such a one."""
    return name not in targets and shutil.which(name, path=environ.get("PATH")) is not None
