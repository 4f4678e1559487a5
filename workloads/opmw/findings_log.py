"""The findings made while a file is read."""

from dataclasses import dataclass, field

from workloads.opmw.templates import FindingOutcome, ImportFinding


@dataclass(slots=True)
class FindingsLog:
    """The findings of one file, and the template of the next ones; made by `templates_in`."""

    file: str
    template: str | None = None
    findings: list[ImportFinding] = field(default_factory=list)

    def add(self, outcome: FindingOutcome, reason: str, *, cause: str = "", name: str = "") -> None:
        """Add a finding; see `ImportFinding` for the cause and the name."""
        self.findings.append(
            ImportFinding(
                file=self.file, template=self.template, outcome=outcome, reason=reason, cause=cause, name=name
            )
        )
