"""Whether those who are to be told can be: found before anything is owed to them, rather than in the night."""

from collections.abc import Iterator, Mapping

from orchestrator.api.messages.target_secrets import SecretMissing, check_secrets, is_program, key_of
from orchestrator.core.pipelines.pipeline import Notify
from orchestrator.core.pipelines.receivers import parse_receiver, receivers_of_run
from orchestrator.core.text.name_match import nearest
from orchestrator.errors import UsageError
from orchestrator.settings.monitoring.notify_targets import Targets
from orchestrator.settings.run_settings import NOTIFY


def receiver_problems(notify: Notify, targets: Targets, environ: Mapping[str, str]) -> Iterator[str]:
    """Why those whom a pipeline tells could not be told by a process like this."""
    try:
        key_of(notify.secret, environ)
    except SecretMissing as error:
        yield f"the secret of [notify] is not there: {error}"
    for each in notify.to:
        if (why := _problem(parse_receiver(each).target, targets, environ)) is not None:
            yield why


def check_run_receivers(notify: str | None, targets: Targets, environ: Mapping[str, str]) -> None:
    """Raises `UsageError` where a target that a run is to tell is not there, or cannot be told by this process."""
    for each in receivers_of_run(notify):
        if not each.target or (not each.on and is_program(each.target, targets, environ)):
            continue
        if (why := _problem(each.target, targets, environ)) is not None:
            raise UsageError(f"{NOTIFY}: {why}")


def targets_out_of_reach(targets: Targets, news: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The targets that want to hear of that and cannot be told by a process like this: each with why."""
    found: dict[str, str] = {}
    for name, target in targets.items():
        try:
            if target.wants(news):
                check_secrets(target, environ)
        except SecretMissing as error:
            found[name] = str(error)
    return found


def _problem(name: str, targets: Targets, environ: Mapping[str, str]) -> str | None:
    target = targets.get(name)
    if target is None:
        near = nearest(name, sorted(targets))
        advice = f"did you mean {near}?" if near else f"write [notify.{name}] there"
        return f"there is no target {name} in the configuration file; {advice}"
    try:
        check_secrets(target, environ)
    except SecretMissing as error:
        return f"the target {name} cannot be told: {error}"
    return None
