"""What evaluations of a job's checkpoints found, and what got worse; curves of it are among the job's metrics."""

import html

from nicegui import ui

from penstock.web.format import short_clock
from penstock.web.layout import Text, ask, badge, rich_table
from penstock.web.urls import job_url
from penstock.web.viewer import Viewer
from penstock.wire import EvaluationList, EvaluationView

_MOST_ROWS = 12
_MOST_RESULTS = 6


class EvaluationPanel:
    """A short list, the newest first; nothing is shown of a job whose checkpoints nobody evaluates."""

    def __init__(self, viewer: Viewer, job_id: str) -> None:
        self._viewer, self._id = viewer, job_id
        with ui.element("section").classes("ps-card").props('aria-label="Evaluations"') as self._card:
            ui.html("Checkpoints evaluated", sanitize=False, tag="h2").style("margin-bottom: 8px")
            self._text = Text()
        self._card.set_visibility(False)

    async def refresh(self) -> None:
        found = await ask(self._viewer.evaluations, self._id)
        self._text.show(evaluations_html(found))
        self._card.set_visibility(bool(found.evaluations))


def evaluations_html(found: EvaluationList) -> str:
    """What got worse first, then the checkpoints."""
    newest = list(reversed(found.evaluations))
    worse = "".join(
        f"<p class='ps-bad'>Step {each.step} got worse: {html.escape('; '.join(each.worse))}</p>"
        for each in newest[:_MOST_ROWS]
        if each.worse
    )
    rows = [_row(each) for each in newest[:_MOST_ROWS]]
    more = len(newest) - len(rows)
    return (
        worse
        + rich_table(("Step", "Evaluation", "State", "Ended", "Results"), rows)
        + (f"<p class='ps-soft'>and {more} more: <code>penstock evaluations</code> lists all</p>" if more > 0 else "")
    )


def _row(each: EvaluationView) -> list[str]:
    shown = ", ".join(f"{name} {value:.4g}" for name, value in list(each.results.items())[:_MOST_RESULTS])
    rest = len(each.results) - _MOST_RESULTS
    told = html.escape(shown or each.reason or "–") + (f" and {rest} more" if rest > 0 else "")
    link = f'<a href="{job_url(each.job_id)}">{html.escape(each.job_id)}</a>'
    return [f"{each.step:,}", link, badge(each.state), short_clock(each.ended_at), told]
