"""What entries about what runs have taught do to the state: speeds, delays, and that a job can be resumed."""

from dataclasses import replace

from penstock.control.state.entries import CostsLearned, CurveLearned, Evaluated, MetricReported, ResumableLearned
from penstock.control.state.folded_state import FoldedState, Reducers
from penstock.control.state.outlook_news import outlook_news
from penstock.core import CostsChanged, CurveChanged, OutlookChanged, ResumableChanged, Source, Verdict
from penstock.policies import weakest_source

_KNOWN_NOW = "its speed was measured since it was answered; its deadline cannot be promised yet, it is asked again"


def _curve_learned(state: FoldedState, entry: CurveLearned) -> None:
    """What one run shows is news for every job that would run the same way."""
    kin = list(state.kin.get(entry.fingerprint, {}).values()) if entry.fingerprint else [state.live(entry.job_id)]
    told = [record for record in kin if state.can_use(record, entry.curve)]
    for record in told:
        record.job = replace(record.job, curve=entry.curve)
    state.feed(*(CurveChanged(entry.at, record.id, entry.curve) for record in told))
    for record in told:
        quote = record.quote
        if quote is None or not (quote.measured_on or quote.speed is Source.GUESSED):
            continue
        reason = _KNOWN_NOW if quote.verdict is Verdict.DEFERRED else quote.reason
        record.quote = replace(quote, speed=weakest_source(record.job), reason=reason, measured_on=0)
        state.touched.add(record.id)


def _costs_learned(state: FoldedState, entry: CostsLearned) -> None:
    told = [record for record in state.kin.get(entry.fingerprint, {}).values() if record.job.costs != entry.costs]
    for record in told:
        record.job = replace(record.job, costs=entry.costs)
    state.feed(*(CostsChanged(entry.at, record.id, entry.costs) for record in told))


def _resumable_learned(state: FoldedState, entry: ResumableLearned) -> None:
    record = state.live(entry.job_id)
    record.job = replace(record.job, resumable=True)
    state.feed(ResumableChanged(entry.at, record.id, resumable=True))


def _metric_reported(state: FoldedState, entry: MetricReported) -> None:
    """A value of the metric that a job trains until, and what is expected of the job because of it."""
    record = state.live(entry.job_id)
    record.measure(entry.step, entry.value)
    if entry.outlook is None:
        return
    done = record.total - state.remaining(record, entry.at)
    if text := outlook_news(record, entry.outlook):
        record.tell(entry.at, text)
    record.outlook = outlook = entry.outlook
    allowance = max(outlook.safe - max(outlook.expected, done), 0.0)
    left = max(outlook.expected - done, 0.0)
    state.feed(OutlookChanged(entry.at, record.id, left, allowance, outlook.reach))


def _evaluated(state: FoldedState, entry: Evaluated) -> None:
    """What an evaluation found is its own: it may outlive the job whose checkpoint it looks at."""
    record = state.live(entry.job_id)
    record.results, record.worse = list(entry.results), list(entry.worse)
    if entry.worse:
        record.tell(entry.at, f"it got worse: {'; '.join(entry.worse)}")


KNOWLEDGE_REDUCERS: Reducers = {
    CurveLearned: _curve_learned,
    CostsLearned: _costs_learned,
    ResumableLearned: _resumable_learned,
    MetricReported: _metric_reported,
    Evaluated: _evaluated,
}
