"""What is found on the way while a file is read."""

from dataclasses import dataclass, field

from workloads.opmw.templates import FindingOutcome, ImportFinding


@dataclass(slots=True)
class FindingsLog:
    """The findings of one file, and of which template the next ones are; made by `templates_in`."""

    file: str
    template: str | None = None
    findings: list[ImportFinding] = field(default_factory=list)

    def tell(self, outcome: FindingOutcome, reason: str, *, cause: str = "", name: str = "") -> None:
        """Add a finding; its cause is what it has in common with others, its name what it concerns in the template."""
        self.findings.append(
            ImportFinding(
                file=self.file, template=self.template, outcome=outcome, reason=reason, cause=cause, name=name
            )
        )
