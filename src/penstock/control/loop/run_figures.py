"""Where runs stand right now: the last thing each told. Read from the reports, never from the log."""

from dataclasses import dataclass, fields, replace

from penstock.core import Report, ReportKind


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

    def after(self, report: Report) -> "RunFigures":
        """The figures once this report is known: what it does not mention stays."""
        if report.kind is ReportKind.METRIC:
            return self
        said = {field.name: getattr(report, field.name, None) for field in fields(self) if field.name != "at"}
        if report.kind is ReportKind.CHECKPOINTED:
            said = {"saved_step": report.step, "saved_path": report.path, "saved_at": report.at}
        news = {name: value for name, value in said.items() if value is not None}
        news["generation"] = max(self.generation, news.get("generation", -1))
        return replace(self, at=report.at, **news)
