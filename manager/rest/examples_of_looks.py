"""Examples for OpenAPI of what is shown before a removal, and of what leaves at an output."""

from datetime import UTC, datetime

from manager.answers import EndingStreamAnswer, RemovalAnswer, SampleAnswer
from manager.rest.examples import DATAFLOW, SUBMITTED

REMOVAL = RemovalAnswer(
    dataflow=DATAFLOW.id,
    stops=SUBMITTED.started,
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
