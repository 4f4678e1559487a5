"""What is found on the way while a file is read."""

from dataclasses import dataclass, field

from workloads.opmw.templates import Finding, Outcome


@dataclass(slots=True)
class Telling:
    """The findings of one file, and of which template the next ones are; made by `templates_in`."""

    file: str
    template: str | None = None
    findings: list[Finding] = field(default_factory=list)

    def tell(self, outcome: Outcome, reason: str, *, cause: str = "", name: str = "") -> None:
        """Add a finding; its cause is what it has in common with others, its name what it concerns in the template."""
        self.findings.append(
            Finding(file=self.file, template=self.template, outcome=outcome, reason=reason, cause=cause, name=name)
        )
