"""What `ottla doctor` found."""

from dataclasses import dataclass, field

from ottla.client.admin import Broker


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: What was looked at.
        is_well: Whether it is as it should be.
        text: What was seen.
        advice: What to change; empty where nothing is wrong.
    """

    subject: str
    is_well: bool
    text: str
    advice: str = ""


@dataclass(slots=True)
class Diagnosis:
    """What was found, in the order in which it was looked at."""

    findings: list[Finding] = field(default_factory=list)
    brokers: list[Broker] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.is_well for finding in self.findings)

    def well(self, subject: str, text: str) -> None:
        """Note that something is as it should be."""
        self.findings.append(Finding(subject, True, text))

    def wrong(self, subject: str, text: str, advice: str) -> None:
        """Note that something is not."""
        self.findings.append(Finding(subject, False, text, advice))
