"""``penstock why``: the story of a job."""

from typing import TYPE_CHECKING

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JobArgument, JsonOption
from penstock.cli.jobs.steering import array_jobs, array_line, job_or_array
from penstock.cli.terminal.console import out
from penstock.core import format_duration

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.wire import ArrayView

_MOST_OF_ARRAY = 50
"""Jobs of an array whose state is explained; each takes a request."""


def why(job: JobArgument, as_json: JsonOption = False) -> None:
    """Why a job stands where it stands: what happened to it, and what comes next. Of an array, a line for each job."""
    from penstock.wire import ArrayView

    with connect() as client:
        story = job_or_array(job, client.why, client.array)
        if isinstance(story, ArrayView):
            _explain_array(client, story, as_json)
            return
    if as_json:
        print_json(story)
        return
    start = story.entries[0].at if story.entries else None
    for note in story.entries:
        since = format_duration((note.at - start).total_seconds()) if start else ""
        out.print(f"+{since:>8}  {note.text}", soft_wrap=True)
    if story.now:
        out.print(f"     now:  {story.now}", soft_wrap=True)


def _explain_array(client: "Client", array: "ArrayView", as_json: bool) -> None:
    jobs = array_jobs(client, array.id)
    stories = [client.why(job.id) for job in jobs[:_MOST_OF_ARRAY]]
    if as_json:
        print_json(stories)
        return
    out.print(array_line(array))
    for job, story in zip(jobs, stories, strict=False):
        last = story.now or (story.entries[-1].text if story.entries else "")
        out.print(f"  {job.name} ({job.id}) {job.state}: {last}", soft_wrap=True)
    if len(jobs) > len(stories):
        out.print(f"  and {len(jobs) - len(stories)} more: penstock ps --array {array.id}")
