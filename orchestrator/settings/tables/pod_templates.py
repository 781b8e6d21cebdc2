"""What can be set of pods that work for runs, in a table of the configuration file for each kind of pod."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final

import msgspec

from orchestrator.core.pods.pod_template import (
    POD_URL_DEFAULT,
    READY_WITHIN_US_DEFAULT,
    PodTemplate,
    WhenDone,
    parse_pod_url,
)
from orchestrator.core.service.addresses import PORT_MAX
from orchestrator.errors import UsageError
from orchestrator.settings.parsers import brake_parsers, job_parsers
from orchestrator.settings.parsers.job_parsers import duration
from orchestrator.settings.setting import Setting, setting_of, settings_in
from orchestrator.settings.value_types import one_of, parsed, text, texts, whole

_pod: Final = partial(Setting, has_flag=False)

_CLOUDS: Final = ("SECURE", "COMMUNITY")


def _cloud(given: str) -> str:
    if given.upper() not in _CLOUDS:
        raise ValueError(f'"{given:.40}" is none of {", ".join(_CLOUDS)}')
    return given.upper()


class PodTemplateTable(msgspec.Struct, frozen=True, kw_only=True):
    """One `[pod-templates.NAME]`. None: nothing was said."""

    template: Annotated[
        str | None,
        _pod(
            "template",
            text("NAME|ID"),
            "The account's template: the image, its command and its variables.",
            default="required",
        ),
    ] = None
    port: Annotated[
        int | None,
        _pod(
            "port",
            whole(1, PORT_MAX),
            "Where the pod's server listens; the template has it as `PORT/http`.",
            default="required",
        ),
    ] = None
    gpu: Annotated[
        str | None,
        _pod("gpu", text("TYPE"), "The GPU type, as in `NVIDIA L4`.", default="required, or `cpu`"),
    ] = None
    gpu_count: Annotated[int | None, _pod("gpu-count", whole(1), "How many of them.", default="1")] = None
    cpu: Annotated[
        str | None,
        _pod("cpu", text("FLAVOR"), "A pod without a GPU: the flavor of its CPU.", default="none"),
    ] = None
    vcpus: Annotated[int | None, _pod("vcpus", whole(2), "How many of these, a power of two.", default="2")] = None
    cloud: Annotated[
        str | None, _pod("cloud", parsed("SECURE|COMMUNITY", _cloud), "Whose hardware.", default="the service's choice")
    ] = None
    data_centers: Annotated[
        tuple[str, ...] | None, _pod("data-centers", texts("ID"), "Where pods may be.", default="anywhere")
    ] = None
    url: Annotated[
        str | None,
        _pod(
            "url",
            parsed("URL", parse_pod_url),
            "Where a pod's port is reached.",
            default=f"`{POD_URL_DEFAULT}`",
        ),
    ] = None
    when_done: Annotated[
        WhenDone | None,
        _pod(
            "when-done",
            one_of(WhenDone),
            "What becomes of a pod that the run needs no more. `stop` keeps its disk, which costs something, and the"
            " next run of the template starts it again.",
            default="`terminate`",
        ),
    ] = None
    ready_within_us: Annotated[
        int | None,
        _pod(
            "ready-within",
            duration(job_parsers.check_second_or_more),
            "A pod whose server does not answer by then is given up, and another one takes its place.",
            default=job_parsers.format_duration(READY_WITHIN_US_DEFAULT),
        ),
    ] = None

    price_per_hour: Annotated[
        float | None,
        _pod(
            "price-per-hour",
            brake_parsers.amount("PRICE"),
            "What a pod costs, for [plans](planning.md#pods); what a run has paid is what the account says.",
            default="as the account says",
        ),
    ] = None


OF_POD_TEMPLATES: Final = settings_in(PodTemplateTable)
PRICE_PER_HOUR: Final[Setting[float]] = setting_of(PodTemplateTable, "price_per_hour")


def pod_template(name: str, where: str, read: Callable[[Setting[Any]], Any]) -> PodTemplate:
    """The template that the table of that name declares; `read` gives the value of a setting there, None for one that
    is not. Raises `UsageError` that names the place, which `where` does.
    """
    table = PodTemplateTable(**{each.name: read(each) for each in OF_POD_TEMPLATES})
    if table.template is None or table.port is None:
        missing = "template" if table.template is None else "port"
        raise UsageError(f"{where}: its {missing} is missing")
    if (table.gpu is None) is (table.cpu is None):
        raise UsageError(f'{where}: write gpu = "NVIDIA L4", or cpu = "cpu3c", and not both')
    said = {name: value for name, value in msgspec.structs.asdict(table).items() if value is not None}
    return PodTemplate(name=name, **said)
