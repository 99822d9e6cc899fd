"""What a job's story says about its metric: only what a person would want to be told."""

from penstock.control.state.records import JobRecord
from penstock.core import Outlook

_WORTH_TELLING = 0.25
"""By what share the expected number of steps has to change."""


def outlook_text(outlook: Outlook) -> str:
    """What is expected, and how sure that is."""
    never = round(100 * (1.0 - outlook.reach))
    text = f"{outlook.expected:.0f} steps in all, nine of ten times at most {outlook.safe:.0f}"
    return f"{text}; {never} % that it never gets there" if never else text


def outlook_news(record: JobRecord, outlook: Outlook) -> str:
    """What is told of a new outlook; nothing if it is much like the one before."""
    before, rule = record.outlook, record.until
    if outlook.is_unlikely and (before is None or not before.is_unlikely):
        best = f", best {record.best.value:.4g}" if record.best is not None else ""
        return f"it will probably not reach {rule}{best}: {outlook_text(outlook)}"
    if before is None:
        return f"its metric tells: {outlook_text(outlook)}"
    if before.is_unlikely and not outlook.is_unlikely:
        return f"it may reach {rule} after all: {outlook_text(outlook)}"
    if abs(outlook.expected - before.expected) > _WORTH_TELLING * before.expected:
        return f"its metric tells something else: {outlook_text(outlook)}"
    return ""
