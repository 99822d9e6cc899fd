"""``penstock why``: the story of a job."""

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JobArgument, JsonOption
from penstock.cli.terminal.console import out
from penstock.core import format_duration


def why(job: JobArgument, as_json: JsonOption = False) -> None:
    """Why a job stands where it stands: what happened to it, and what comes next."""
    with connect() as client:
        story = client.why(job)
    if as_json:
        print_json(story)
        return
    start = story.entries[0].at if story.entries else None
    for note in story.entries:
        since = format_duration((note.at - start).total_seconds()) if start else ""
        out.print(f"+{since:>8}  {note.text}", soft_wrap=True)
    if story.now:
        out.print(f"     now:  {story.now}", soft_wrap=True)
