"""``penstock report``: what real runs amounted to, for a job or for a stretch of time."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption, as_sent
from penstock.cli.terminal.console import out, plain_table, write_page
from penstock.cli.terminal.format import clock
from penstock.core import InputError, counted, format_duration

if TYPE_CHECKING:
    from penstock.wire import JobReport, PeriodReport


def command(
    job: Annotated[str | None, typer.Argument(help="One job; without it, everything in the period.")] = None,
    since: Annotated[str, typer.Option(help="How long ago it begins, or when: 7d, 2026-12-01T00:00.")] = "7d",
    until: Annotated[str | None, typer.Option(help="When it ends (default: now).")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant; users see their own in any case.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a page for people.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing page.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Promises kept and missed, device time and energy, failures, resizes, and how good the forecasts were."""
    if job is not None and html is not None:
        raise InputError(
            "A report about one job cannot be written as a page",
            "--html for a period",
            "Leave JOB out, or leave --html out",
        )
    _check(html, force)
    with connect() as client:
        if job is not None:
            about_job = client.job_report(job)
            print_json(about_job) if as_json else _tell_job(about_job)
            return
        report = client.report(since=as_sent(since) or since, until=as_sent(until), tenant=tenant)
    if html is not None:
        _write(html, report)
    if as_json:
        print_json(report)
    elif html is None:
        _tell(report)


def _check(page: Path | None, force: bool) -> None:
    if page is None:
        return
    if page.is_dir() or page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"A report cannot be written to {page}", "a file that ends in .html", "Try --html week.html")
    if page.exists() and not force:
        raise InputError(f"{page} exists already", hint="Choose another --html, or replace it with --force")


def _write(page: Path, report: "PeriodReport") -> None:
    from penstock.control import report_page

    write_page(page, report_page(report))


def _tell_job(report: "JobReport") -> None:
    out.print(f"{report.job_id}  {report.name}  {report.state}")
    ends = f"submitted {clock(report.submitted_at)}, started {clock(report.started_at)}, ended {clock(report.ended_at)}"
    out.print(ends + (f", due {clock(report.deadline)}" if report.deadline is not None else ""))
    for sentence in report.words:
        out.print(sentence, soft_wrap=True)


def _tell(report: "PeriodReport") -> None:
    from penstock.control import kilowatt_hours, sentences

    whose = f", tenant {report.tenant}" if report.tenant else ""
    out.print(f"{clock(report.since)} to {clock(report.until)}{whose}: {counted(report.jobs.there, 'job')}")
    for title, text in sentences(report):
        out.print(f"{title}: {text}", soft_wrap=True)
    table = plain_table(
        "tenant", "jobs", "device-hours", "kWh (~ estimated)", "kept", "broken", "refused", "fairness 24 h"
    )
    for tenant in report.tenants:
        table.add_row(
            tenant.tenant, str(tenant.jobs), f"{tenant.device_seconds / 3600:.2f}", kilowatt_hours(tenant),
            str(tenant.kept), str(tenant.broken), str(tenant.refused),
            "-" if tenant.fairness is None else f"{tenant.fairness:.2f}",
        )  # fmt: skip
    if report.tenants:
        out.print(table)
    for lost in report.broken[:10]:
        late = (
            "never finished"
            if lost.late_s is None
            else f"{format_duration(lost.late_s)} late{'' if lost.ended_at else ' so far'}"
        )
        out.print(f"broken: {lost.job_id} {lost.name} ({lost.tenant}), {late}: {lost.why}", soft_wrap=True)
