"""What the demo did and measured, as one JSON document for programs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from manager.answers import SubmitAnswer
from workloads.demo.cores import Measured
from workloads.demo.stage import Progress, Removal, Sums, in_order


@dataclass(kw_only=True)
class Outcome:
    """What came of a demo; filled while it plays."""

    url: str = ""
    ready_after: float = 0.0
    """Seconds."""
    submitted: list[dict[str, Any]] = field(default_factory=list)
    """In the order of their submissions; one that left and came back is there twice."""
    removed: dict[str, Any] = field(default_factory=dict)
    others: Sequence[Progress] = ()
    """How the outputs of those that stayed went on."""
    with_sharing: Measured | None = None
    without_sharing: Measured | None = None
    seconds: float = 0.0

    def submit(self, flow: SubmitAnswer, sums: Sums) -> None:
        """A dataflow was submitted, and so much runs since."""
        self.submitted.append(
            {
                "dataflow": flow.id,
                "tenant": flow.tenant,
                "name": flow.name,
                "reused": [task.id for task in in_order(flow.reused)],
                "started": [task.id for task in in_order(flow.started)],
                "in_all": sums,
            }
        )

    def remove(self, flow: SubmitAnswer, removal: Removal, sums: Sums) -> None:
        """A dataflow was removed, and so much runs since."""
        self.removed = {"dataflow": flow.id, "tenant": flow.tenant, "in_all": sums, **asdict(removal)}

    def data(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        told: dict[str, Any] = asdict(self)
        return told
