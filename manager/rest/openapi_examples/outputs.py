"""Examples of the preview of a removal, and of events: sent to a source, and leaving at an output."""

import json
from datetime import UTC, datetime

from manager.answers import (
    EndingStreamAnswer,
    OutputEvent,
    ProducerAnswer,
    RemovalAnswer,
    SampleAnswer,
    SentAnswer,
)
from manager.rest.openapi_examples.resources import DATAFLOW, SUBMIT_ANSWER

REMOVAL = RemovalAnswer(
    dataflow=DATAFLOW.id,
    stops=SUBMIT_ANSWER.started,
    goes_on=2,
    streams=(EndingStreamAnswer(task="plausible", instance=2, port="out"),),
)
SAMPLE = SampleAnswer(
    at=datetime(2026, 3, 1, 12, tzinfo=UTC),
    epoch=1,
    first=4_001,
    events=({"sensor": "s1", "temperature": 21.5},),
    others=39,
)
OUTPUT_EVENT = OutputEvent(sink="averages", epoch=1, number=4_001, event={"sensor": "s1", "temperature": 21.5})
SENT_EVENTS = [{"sensor": "s1", "temperature": 21.5}, {"sensor": "s2", "temperature": 19.0}]
EVENT_LINES = "".join(f"{json.dumps(event)}\n" for event in SENT_EVENTS)
SENT = SentAnswer(source="city:street", producer="day-7", next=4_002)
PRODUCER = ProducerAnswer(source="city:street", producer="day-7", next=4_002)
