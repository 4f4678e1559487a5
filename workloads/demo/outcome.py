"""What the demo did and measured, as one JSON document for programs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from manager.answers import SavingsAnswer, SubmitAnswer
from workloads.demo.stage import OutputProgress, Removal, Side, in_order
from workloads.results import StepRow


@dataclass(kw_only=True)
class DemoOutcome:
    """What came of a demo; filled while it plays."""

    submitted: list[dict[str, Any]] = field(default_factory=list)
    """In the order of their submissions; one that left and came back is there twice."""
    removed: dict[str, Any] = field(default_factory=dict)
    others: Sequence[OutputProgress] = ()
    """How the outputs of those that stayed went on."""
    with_sharing: dict[str, Any] = field(default_factory=dict)
    without_sharing: dict[str, Any] = field(default_factory=dict)
    account: dict[str, Any] = field(default_factory=dict)
    """What the service that shares says of savings and shares."""
    report: str = ""
    """The page's path."""
    seconds: float = 0.0

    def submit(self, flow: SubmitAnswer, counts: StepRow) -> None:
        """A dataflow was submitted, and so much runs since."""
        self.submitted.append(
            {
                "dataflow": flow.id,
                "tenant": flow.tenant,
                "name": flow.name,
                "reused": [task.id for task in in_order(flow.reused)],
                "started": [task.id for task in in_order(flow.started)],
                "in_all": counts,
            }
        )

    def remove(self, removal: Removal, counts: StepRow) -> None:
        """A dataflow was removed, and so much runs since."""
        flow = removal.flow
        self.removed = {
            "dataflow": flow.id,
            "tenant": flow.tenant,
            "name": flow.name,
            "stopped": removal.stopped,
            "released": removal.released,
            "in_all": counts,
        }

    def measure(self, shared: Side, alone: Side, account: SavingsAnswer) -> None:
        """This was measured at the end."""
        self.with_sharing, self.without_sharing = (
            {"in_all": side.counts, "windows": side.windows} for side in (shared, alone)
        )
        self.account = account.model_dump(mode="json")

    def data(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        told: dict[str, Any] = asdict(self)
        return told
