"""Files that a page links to: the whole output of a job and what it saved, for whoever is signed in and may see it."""

from collections.abc import Iterator

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from penstock.control import Platform, Principal
from penstock.web.session import sign_in_url, signed_in
from penstock.web.urls import ROOT, job_url
from penstock.wire import LogPage

_PIECE_BYTES = 1 << 20


def download_routes(platform: Platform) -> APIRouter:
    """Plain answers beside the pages; a right is asked for where the page asks for it, at the platform."""
    router = APIRouter(include_in_schema=False)

    @router.get(f"{ROOT}/jobs/{{job_id}}/output.txt")
    def output(job_id: str, request: Request) -> Response:
        who = signed_in(platform.credentials, request)
        if who is None:
            return RedirectResponse(sign_in_url(job_url(job_id)), 303)
        first = platform.logs(job_id, who, limit=_PIECE_BYTES)
        headers = {"content-disposition": f'attachment; filename="{job_id}.txt"'}
        pieces = _pieces(platform, job_id, who, first)
        return StreamingResponse(pieces, media_type="text/plain; charset=utf-8", headers=headers)

    @router.get(f"{ROOT}/jobs/{{job_id}}/files")
    def file(job_id: str, request: Request, path: str = "") -> Response:
        who = signed_in(platform.credentials, request)
        if who is None:
            return RedirectResponse(sign_in_url(job_url(job_id)), 303)
        opened = platform.files.read(job_id, who, path)
        return StreamingResponse(opened.chunks, media_type="application/octet-stream", headers=opened.headers)

    return router


def _pieces(platform: Platform, job_id: str, who: Principal, page: LogPage) -> Iterator[str]:
    """What there is up to now, piece by piece; a job that goes on is not waited for."""
    while page.text:
        yield page.text
        page = platform.logs(job_id, who, cursor=page.next, limit=_PIECE_BYTES)
