"""Spans of OpenTelemetry, where somebody asks for traces; else all of this does nothing, and loads nothing.

A process begins its traces if one of the standard variables names where they go, and reads all other standard variables
as every other program does. A span follows the one that is open in its thread, or one of another process, which the
traceparent in a message names. Traces are sent from a thread of their own; what nobody takes is dropped, and logged.
"""

import logging
import math
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACED_BATCHES_VARIABLE = "BRAID_TRACED_BATCHES"
"""The part of batches that are traced, from 0 to 1."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ENDPOINT_VARIABLE)
_TRACED_BATCHES = 0.01
_MISSING = "traces are asked for, and the packages for them are missing; install them: pip install 'braid[traces]'"
Attributes: TypeAlias = Mapping[str, str | int | float | bool]
SpanKind: TypeAlias = Literal["internal", "server", "producer", "consumer"]
_END_SECONDS = 3.0
"""Seconds that the end of a process waits for a receiver."""
_COMPLAIN_EVERY = 60.0
log = logging.getLogger("braid.traces")


class OpenSpan:
    """A span that has not ended, or nothing where there are no traces."""

    def __init__(self, span: "Span | None" = None) -> None:
        self._span = span

    def note(self, attributes: Attributes, *, name: str | None = None, error: str = "") -> None:
        """Add attributes, and say how it is called after all, or why it failed."""
        if self._span is None:
            return
        self._span.set_attributes(attributes)
        if name is not None:
            self._span.update_name(name)
        if error:
            from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - only where there are traces

            self._span.set_status(Status(StatusCode.ERROR, error))


_NO_SPAN = OpenSpan()
_NOTHING: Attributes = {}


class _Traces:
    """The traces of this process."""

    tracer: "Tracer | None" = None
    provider: "TracerProvider | None" = None
    batches = 0.0
    """The part of batches that are traced."""


def begin_traces(part: str, instance: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Begin the traces of this process, if they are asked for; whether they were.

    `part` is the part of Braid that it runs, `instance` the name of the manager or machine.
    """
    if (
        not any(environment.get(name) for name in _ENDPOINTS)
        or environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    ):
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none":
        return False
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - see above
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - see above
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - see above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - see above
    except ImportError:
        log.error(_MISSING)  # noqa: TRY400 - it says what to do
        return False
    named = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": f"braid-{part}"}
    resource = Resource.create({**named, "service.instance.id": instance, "service.version": version("braid")})
    _Traces.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    _Traces.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    exporting = logging.getLogger(OTLPSpanExporter.__module__)
    exporting.addFilter(_Seldom())
    exporting.setLevel(logging.ERROR)
    _Traces.tracer = _Traces.provider.get_tracer("braid", version("braid"))
    _Traces.batches = _TRACED_BATCHES
    if given := environment.get(TRACED_BATCHES_VARIABLE):
        try:
            _Traces.batches = float(given)
        except ValueError:
            log.warning("%s is no number, so one batch in a hundred is traced", TRACED_BATCHES_VARIABLE)
    return True


def end_traces() -> None:
    """Send what is not sent yet, unless that takes long, and trace no more; idempotent."""
    provider, _Traces.provider, _Traces.tracer = _Traces.provider, None, None
    if provider is not None:
        # Its own timeout does not count while a receiver that is away is tried again.
        ending = threading.Thread(target=provider.shutdown, name="ends traces", daemon=True)
        ending.start()
        ending.join(_END_SECONDS)


class _Seldom(logging.Filter):
    """Lets one complaint a minute pass: each batch of spans has one while the receiver is away."""

    def __init__(self) -> None:
        super().__init__()
        self._again_at = -math.inf

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - the base class has it
        now = time.monotonic()
        if now < self._again_at:
            return False
        self._again_at = now + _COMPLAIN_EVERY
        return True


def is_tracing() -> bool:
    """Whether this process has traces."""
    return _Traces.tracer is not None


def is_batch_sampled() -> bool:
    """Whether the parts of the next batch are to be traced."""
    return _Traces.tracer is not None and random.random() < _Traces.batches  # noqa: S311 - no secret


@contextmanager
def span(
    name: str, attributes: Attributes = _NOTHING, *, parent: str = "", kind: SpanKind = "internal", began: float = 0.0
) -> Iterator[OpenSpan]:
    """A span around what is done in the context. It follows a traceparent, else the span that is open in this thread.

    It may have begun before, in seconds since 1970. Of an error it has the kind: messages may quote a tenant.
    """
    tracer = _Traces.tracer
    if tracer is None:
        yield _NO_SPAN
        return
    from opentelemetry import trace  # noqa: PLC0415 - only where there are traces

    with tracer.start_as_current_span(
        name,
        context=_context(parent),
        kind=trace.SpanKind[kind.upper()],
        attributes=attributes,
        start_time=int(began * 1e9) or None,
        record_exception=False,
        set_status_on_exception=False,
    ) as started:
        made = OpenSpan(started)
        try:
            yield made
        except Exception as error:
            made.note({}, error=type(error).__name__)
            raise


def record_span(name: str, began: int, ended: int, attributes: Attributes = _NOTHING, *, parent: str = "") -> str:
    """Add a span of the past, in nanoseconds since 1970; its traceparent, for those that follow it."""
    tracer = _Traces.tracer
    if tracer is None:
        return ""
    past = tracer.start_span(name, context=_context(parent), attributes=attributes, start_time=began)
    past.end(max(began, ended))
    return _written(past)


def traceparent() -> str:
    """The open span of this thread, as W3C writes it in messages; empty without one, and if it is not recorded."""
    if _Traces.tracer is None:
        return ""
    from opentelemetry import trace  # noqa: PLC0415 - only where there are traces

    return _written(trace.get_current_span())


def trace_ids() -> dict[str, str]:
    """The ids of this thread's open span, for its log."""
    if not (written := traceparent()):
        return {}
    _, trace, span_id, _ = written.split("-")
    return {"trace_id": trace, "span_id": span_id}


def _written(span: "Span") -> str:
    context = span.get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _context(parent: str) -> "Context | None":
    """The context of a span of another process; None for that of this thread, also if it cannot be read."""
    if not parent:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - see above

    return TraceContextTextMapPropagator().extract({"traceparent": parent})
