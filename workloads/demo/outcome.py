"""The outcome of the demo, as one JSON document for programs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from manager.answers.dataflows import SubmitAnswer
from manager.answers.savings import SavingsAnswer
from workloads.demo.stage import OutputProgress, Removal, Side, in_order
from workloads.results import StepRow


@dataclass(kw_only=True)
class DemoOutcome:
    """The steps and measurements of a demo; filled while it runs."""

    submitted: list[dict[str, Any]] = field(default_factory=list)
    """In order of submission; a dataflow that left and returned is there twice."""
    removed: dict[str, Any] = field(default_factory=dict)
    others: Sequence[OutputProgress] = ()
    """The outputs of the dataflows that stayed."""
    with_sharing: dict[str, Any] = field(default_factory=dict)
    without_sharing: dict[str, Any] = field(default_factory=dict)
    account: dict[str, Any] = field(default_factory=dict)
    """The savings and shares that the sharing service reports."""
    report: str = ""
    """The path of the page."""
    seconds: float = 0.0

    def submit(self, flow: SubmitAnswer, counts: StepRow) -> None:
        """Add a submission and the counts after it."""
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
        """Add the removal and the counts after it."""
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
        """Set the measurements; the last call is that of the last step."""
        self.with_sharing, self.without_sharing = (
            {"in_all": side.counts, "windows": side.windows} for side in (shared, alone)
        )
        self.account = account.model_dump(mode="json")

    def data(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        data: dict[str, Any] = asdict(self)
        return data
