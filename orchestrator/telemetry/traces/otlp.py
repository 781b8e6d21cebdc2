"""Spans as OpenTelemetry has them, and the way to whoever takes them: OTLP over HTTP, by the variables `OTEL_*`."""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from orchestrator import __version__
from orchestrator.errors import UsageError
from orchestrator.installation import missing_package
from orchestrator.telemetry.traces.spans import SpanOf
from orchestrator.telemetry.traces.trace_sender import Send

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

EXTRA: Final = "otel"
SERVICE_NAME: Final = "orchestrator"
_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_NANOSECONDS: Final = 1_000
_PROTOCOL: Final = "http/protobuf"
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def otlp_exporter(
    environ: Mapping[str, str] = os.environ, load: Callable[[str], ModuleType] = import_module
) -> "SpanExporter":
    """The exporter that the variables describe; `load` imports what it needs. Raises `UsageError` where the extra is
    missing, or another protocol is asked for.
    """
    asked = next((environ[name] for name in _PROTOCOLS if environ.get(name)), _PROTOCOL)
    if asked != _PROTOCOL:
        raise UsageError(f"traces are sent by {_PROTOCOL}, not by {asked}: give the receiver's address for that")
    try:
        module = load(_EXPORTER)
    except ImportError:
        raise UsageError(missing_package("tracing", "OpenTelemetry", EXTRA)) from None
    exporter: SpanExporter = module.OTLPSpanExporter()
    return exporter


def sending_by(exporter: "SpanExporter") -> Send:
    """How spans are handed to `exporter`: in a thread, since it waits for its receiver there."""
    from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415  an extra

    resource = _resource()

    async def send(spans: Sequence[SpanOf]) -> bool:
        given = [_readable(span, resource) for span in spans]
        result = await to_thread.run_sync(exporter.export, given, abandon_on_cancel=True)
        return result is SpanExportResult.SUCCESS

    return send


def _resource() -> "Resource":
    """What sends them: by the variables, where these say it."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415  an extra

    own = Resource({"service.name": SERVICE_NAME, "service.version": __version__})
    return own.merge(OTELResourceDetector().detect())


def _readable(span: SpanOf, resource: "Resource") -> "ReadableSpan":
    from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415  an extra
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags  # noqa: PLC0415

    def context(number: int) -> SpanContext:
        return SpanContext(span.trace, number, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    error = {} if span.error_type is None else {"error.type": span.error_type}
    return ReadableSpan(
        name=span.name,
        context=context(span.number),
        parent=None if span.parent is None else context(span.parent),
        resource=resource,
        attributes={**span.attributes, **error},
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.UNSET if span.error_type is None else StatusCode.ERROR),
        start_time=span.began_at * _NANOSECONDS,
        end_time=span.ended_at * _NANOSECONDS,
        instrumentation_scope=InstrumentationScope(SERVICE_NAME, __version__),
    )
