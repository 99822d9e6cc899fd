"""What evaluations found, as the job's page shows it."""

from datetime import UTC, datetime

from penstock.web.pages.evaluation_list import evaluations_html
from penstock.wire import EvaluationList, EvaluationView

EVIL = "<img src=x onerror=alert(1)>"
AT = datetime(2026, 1, 1, tzinfo=UTC)


def shown(*evaluations: EvaluationView) -> str:
    return evaluations_html(EvaluationList(job_id="j-23456789", name="night", evaluations=list(evaluations)))


def view(step: int, **more: object) -> EvaluationView:
    given = {"step": step, "job_id": f"e-23456789-{step}", "state": "finished", "submitted_at": AT, **more}
    return EvaluationView.model_validate(given)


def test_the_newest_comes_first_with_its_results_and_what_got_worse_before_all() -> None:
    page = shown(
        view(10, results={"arc/acc": 0.7}),
        view(20, results={f"set-{number}/acc": 0.5 for number in range(9)}, worse=["arc/acc 0.5, was 0.7 at step 10"]),
        view(30, state="failed", reason="exit"),
    )
    assert page.index("Step 20 got worse: arc/acc 0.5, was 0.7 at step 10") < page.index("e-23456789-30")
    assert page.index("e-23456789-30") < page.index("e-23456789-20") < page.index("e-23456789-10")
    assert "and 3 more" in page
    assert "arc/acc 0.7" in page
    assert "exit" in page


def test_many_are_cut_short_and_nothing_of_theirs_is_markup() -> None:
    page = shown(*(view(step, worse=[EVIL], reason=EVIL) for step in range(1, 21)))
    assert "and 8 more: <code>penstock evaluations</code> lists all" in page
    assert "<img" not in page
