"""The text of a run that failed: what was planned, what happened, and what did not hold."""

from typing import Final

from simulation.soup.run import Outcome

_LAST: Final = 400


def story(outcome: Outcome) -> str:
    """Return a failed run as text for people."""
    plan = outcome.plan
    how = (
        "records synced before they are acknowledged"
        if plan.durable
        else "records in memory when acknowledged"
    )
    lines = [
        f"Seed {plan.seed}: {plan.brokers} brokers, {how}. {outcome.violation}",
        "",
        "Planned:",
        *(f"  {each}" for each in plan.happenings or ("  nothing",)),
        "",
        "Happened:",
        *(f"  {at:8.3f} s  {text}" for at, text in outcome.log[-_LAST:]),
    ]
    if outcome.trace:
        lines += ["", outcome.trace.rstrip()]
    return "\n".join(lines) + "\n"
