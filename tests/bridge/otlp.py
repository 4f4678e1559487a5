"""The spans that a receiver of OTLP got, as the exporter of OpenTelemetry sends them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.tasks.receivers import Receiving


class Told(NamedTuple):
    """A span."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    """The id of the span that it follows; empty if there is none."""
    began: int
    ended: int
    attributes: Mapping[str, Any]


def spans_of(receiver: Receiving, trace: str = "") -> list[Told]:
    """All spans that came so far, or those of a trace."""
    every = (span for got in list(receiver.got) if got.path == "/v1/traces" for span in _spans(got.body))
    return [span for span in every if trace in {"", span.trace}]


def _spans(body: bytes) -> Iterator[Told]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Told(
                    service=service,
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                    attributes=_attributes(span.attributes),
                )


def _attributes(given: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in given}
