"""What holds runs up at the service: rules over what it answered when it was asked how it is.

`/health` is all that is asked: it costs nothing and changes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from orchestrator.core.diagnosis.causes import Cause, Finding, finding
from orchestrator.core.diagnosis.facts import Facts, RunState, ServiceState
from orchestrator.core.service.health import Health
from orchestrator.core.service.http_answers import POINTLESS
from orchestrator.core.service.profiles import is_by_url
from orchestrator.core.text.durations import rough_duration
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.errors import Hurdle
from orchestrator.units import MINUTE_US, SECOND_US

CLOCK_US_MAX: Final = 30 * SECOND_US
"""A clock that is wrong by less does no harm: deadlines have minutes of margin."""

UNREACHABLE: Final = "the service cannot be reached"
CLOCK_WRONG: Final = "this machine's clock is wrong"
SERVICE_FAILS: Final = "the service answers with errors"
NOT_THE_SERVICE: Final = "something else answers in the service's place"
NO_WORKERS: Final = "jobs wait, and the endpoint has no workers"
THROTTLED: Final = "workers are throttled: there is no machine for them"
UNHEALTHY: Final = "workers are unhealthy: they end when they start"
SCALED_TO_ZERO: Final = "the endpoint has scaled to zero, and jobs of low priority start no worker"
START_US_USUAL: Final = 2 * MINUTE_US
"""A cold start that takes no longer is none to speak of: an image is pulled, a model loaded."""

COLD_START: Final = "the first workers are starting"
TELLS_NO_HEALTH: Final = "it has neither /ping nor /health: how it is, only its answers to jobs tell"
STARTING: Final = 204
"""What `/ping` of a load balancing endpoint answers while no worker is ready."""

_WAY: Final[Mapping[Hurdle | None, tuple[Cause, str, str]]] = {
    Hurdle.DNS: (
        Cause.DNS,
        "the service's name is not found (DNS)",
        "see whether the service's URL is right, and whether this machine can look up names",
    ),
    Hurdle.PROXY: (
        Cause.PROXY,
        "the proxy lets nothing through",
        "see whether HTTPS_PROXY and NO_PROXY are right, and whether the proxy allows this host",
    ),
    Hurdle.TLS: (
        Cause.TLS,
        "no secure connection to the service (TLS)",
        "see whether the URL is right, the clock too, and who stands between: a proxy with a certificate of its own?",
    ),
    Hurdle.TIME_OUT: (
        Cause.TIME_OUT,
        "the service does not answer in time",
        "nothing, if the service is at fault; else see whether a firewall swallows the requests",
    ),
    None: (
        Cause.UNREACHABLE,
        UNREACHABLE,
        "see whether the service's URL is right and this machine reaches the network",
    ),
}

_REFUSED: Final[Mapping[int, tuple[Cause, str]]] = {
    401: (
        Cause.KEY_REFUSED,
        "set ORCHESTRATOR_API_KEY, or the profile's variable, to a key that is good for this service",
    ),
    403: (Cause.KEY_REFUSED, "use a key that may use this endpoint, or give this one the permission"),
    404: (
        Cause.ENDPOINT_UNKNOWN,
        "see whether the endpoint's id and the service's URL are right; a new one is known after some seconds",
    ),
    407: (Cause.PROXY, "give the proxy's user and password in HTTPS_PROXY"),
    410: (Cause.ENDPOINT_UNKNOWN, "make the endpoint anew"),
}


HEADERS_ADVICE: Final = 'give what it wants in [endpoints."{}"] headers of the configuration file'


def way(facts: Facts) -> Iterator[Finding]:
    """What is in the way to the service."""
    for service in facts.services:
        if service.failure is not None:
            cause, sentence, advice = _WAY[service.hurdle]
            yield _finding(service, cause, sentence, service.failure, advice)


def health_answer(facts: Facts) -> Iterator[Finding]:
    """What the service says instead of how it is."""
    for service in facts.services:
        if service.status is None or service.health is not None:
            continue
        evidence = f"it answered {service.status} when it was asked how it is"
        if service.status in _REFUSED:
            cause, advice = _REFUSED[service.status]
            if cause is Cause.KEY_REFUSED and is_by_url(service.service_url):
                advice = HEADERS_ADVICE.format(service.endpoint)
            if cause is not Cause.ENDPOINT_UNKNOWN or not _is_known(facts, service):
                yield _finding(service, cause, POINTLESS[service.status], evidence, advice)
        elif service.status == STARTING and is_by_url(service.service_url):
            advice = "nothing; jobs wait for its workers, if they come soon enough"
            yield _finding(service, Cause.COLD_START, COLD_START, evidence, advice, needs_person=False)
        elif service.status >= 500:  # noqa: PLR2004
            advice = "nothing; the process at work tries again by itself"
            yield _finding(service, Cause.SERVICE_FAILS, SERVICE_FAILS, evidence, advice, needs_person=False)
        elif not service.is_of_service:
            advice = "see whether the service's URL is right, and who answers there: a login page, a gateway?"
            yield _finding(service, Cause.NOT_THE_SERVICE, NOT_THE_SERVICE, evidence, advice)


def _is_known(facts: Facts, service: ServiceState) -> bool:
    """Whether a process gets on with the endpoint all the same: some hide how they are."""
    runs = facts.runs_at(service)
    return facts.is_worked_on and any(run.at_service and run.blocked_by is None for run in runs)


def clock(facts: Facts) -> Iterator[Finding]:
    """Whether this machine and the service agree on the time. Said once: there is one clock."""
    wrong = [each for each in facts.services if each.ahead_us is not None and abs(each.ahead_us) > CLOCK_US_MAX]
    for service in wrong[:1]:
        ahead_us = service.ahead_us or 0
        by = f"{rough_duration(abs(ahead_us))} {'ahead of' if ahead_us > 0 else 'behind'} the service's"
        advice = "let the system keep its time (NTP); deadlines and TTLs are reckoned by it"
        yield _finding(service, Cause.CLOCK_WRONG, CLOCK_WRONG, f"it is {by}", advice)


def workers(facts: Facts) -> Iterator[Finding]:
    """Why jobs wait in the endpoint's queue though nobody is busy with others."""
    for service in facts.services:
        health = service.health
        if health is not None and health.jobs.in_queue:
            runs = facts.runs_at(service)
            is_low = bool(runs) and all(run.is_low_priority for run in runs)
            if not (is_starting(health) and _has_just_begun(runs)):
                yield from _of_workers(facts, service, health, is_low_priority=is_low)


def is_starting(health: Health) -> bool:
    """Whether jobs wait for the first workers, which are on their way."""
    working = (health.workers.idle, health.workers.running, health.workers.throttled, health.workers.unhealthy)
    return bool(health.jobs.in_queue and health.workers.initializing) and not any(working)


def _has_just_begun(runs: Sequence[RunState]) -> bool:
    """Whether jobs are there, and none has waited for longer than a start usually takes."""
    waited = [run.waited_us for run in runs if run.waited_us is not None]
    return bool(waited) and max(waited) <= START_US_USUAL


def _of_workers(facts: Facts, service: ServiceState, health: Health, *, is_low_priority: bool) -> Iterator[Finding]:
    if health.workers.idle is None or health.workers.running is None:
        return  # it does not say
    is_at_work = health.workers.idle + health.workers.running > 0
    evidence = (
        f"{health.jobs.in_queue:,} jobs in its queue; workers: {health.workers.running:,} running,"
        f" {health.workers.idle:,} idle, {health.workers.initializing or 0:,} starting,"
        f" {health.workers.throttled or 0:,} throttled, {health.workers.unhealthy or 0:,} unhealthy"
    )
    if health.workers.throttled:
        advice = "wait, or allow the endpoint other GPU types or places"
        yield _finding(service, Cause.WORKERS_THROTTLED, THROTTLED, evidence, advice, needs_person=not is_at_work)
    if health.workers.unhealthy:
        logs = facts.word(Suggestion(NextStep.READ_WORKER_LOGS))
        advice = f"read their logs ({logs}): the image, the model or the start command fails"
        yield _finding(service, Cause.WORKERS_UNHEALTHY, UNHEALTHY, evidence, advice, needs_person=not is_at_work)
    if is_at_work or health.workers.throttled or health.workers.unhealthy:
        return
    if is_starting(health):
        advice = "nothing: it takes as long as loading the image and the model does"
        yield _finding(service, Cause.COLD_START, COLD_START, evidence, advice, needs_person=False)
    elif is_low_priority:
        advice = "send one job of ordinary priority, or raise the endpoint's fewest workers"
        yield _finding(service, Cause.SCALED_TO_ZERO, SCALED_TO_ZERO, evidence, advice)
    else:
        advice = "raise the endpoint's most workers, if that is 0; else allow it other GPU types or places"
        yield _finding(service, Cause.NO_WORKERS, NO_WORKERS, evidence, advice)


def _finding(
    service: ServiceState, cause: Cause, sentence: str, evidence: str, advice: str, *, needs_person: bool = True
) -> Finding:
    return finding(cause, service.name, sentence, evidence, advice=advice, needs_person=needs_person)
