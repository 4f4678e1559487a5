"""Examples of reconfigurations."""

from datetime import UTC, datetime

from manager.answers import (
    ChangedTaskAnswer,
    ComponentAnswer,
    Page,
    QueueAnswer,
    ReconfigurationAnswer,
    ReconfigurationScope,
    ReconfigurationState,
)

_BEGUN = datetime(2026, 3, 1, 12, tzinfo=UTC)
RECONFIGURATION = ReconfigurationAnswer(
    id="7",
    state=ReconfigurationState.SWITCHING,
    dataflows=("d-5f0a41c2b7de",),
    who="city",
    begun=_BEGUN,
    scope=ReconfigurationScope(
        tasks=(
            ChangedTaskAnswer(
                dataflow="d-5f0a41c2b7de", task="average", in_place=True, changed=True, state="transformed", job="1"
            ),
        ),
        components=(ComponentAnswer(tasks=("average",), heads=("average",)),),
        jobs=("1",),
        waiting=(),
        delay_seconds=1.0,
    ),
)
WAITING = RECONFIGURATION.model_copy(
    update={
        "id": "9",
        "state": ReconfigurationState.WAITING,
        "queue": QueueAnswer(place=2, behind=("7", "8")),
    }
)
RECONFIGURATION_PAGE = Page[ReconfigurationAnswer](items=(RECONFIGURATION,))
