"""Where runs stand right now: the last thing each told. Read from the reports, never from the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from penstock.core import WATCHED, Report, ReportKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """The latest known figures of one run."""

    at: float = 0.0
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    samples_per_s: float | None = None
    width: int | None = None
    generation: int = -1
    saved_step: int | None = None
    saved_path: str | None = None
    saved_at: float | None = None
    notices: Mapping[str, str] = field(default_factory=dict)
    """What was seen in it and is still so, by what it is about."""

    def after(self, report: Report) -> "RunFigures":
        """The figures once this report is known: what it does not mention stays."""
        if report.kind is ReportKind.METRIC:
            return self
        if report.kind in WATCHED:
            return replace(self, at=report.at, notices=self._noticed(report))
        said = {name: getattr(report, name, None) for name in _FIGURES}
        if report.kind is ReportKind.CHECKPOINTED:
            said = {"saved_step": report.step, "saved_path": report.path, "saved_at": report.at}
        news = {name: value for name, value in said.items() if value is not None}
        news["generation"] = max(self.generation, news.get("generation", -1))
        if report.kind is ReportKind.PROGRESS and ReportKind.STUCK in self.notices:
            news["notices"] = {about: text for about, text in self.notices.items() if about != ReportKind.STUCK}
        return replace(self, at=report.at, **news)

    def _noticed(self, report: Report) -> dict[str, str]:
        """A worker that keeps up again is no news any more; of everything else the latest counts."""
        about = f"{report.kind} {report.worker}" if report.worker else str(report.kind)
        others = {one: text for one, text in self.notices.items() if one != about}
        if report.kind is ReportKind.STRAGGLER and report.value is None:
            return others
        return {**others, about: report.reason or ""}


_FIGURES = tuple(one.name for one in fields(RunFigures) if one.name not in ("at", "notices"))
