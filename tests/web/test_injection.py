"""Text of jobs is text on every page, and markup that got into a page would still run nothing."""

from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.web.browsing import tab
from tests.web.site import WebSite

pytestmark = pytest.mark.xdist_group("browser")

EVIL = "</script><img src=x onerror=\"window.pwned='{}'\"><svg onload=\"window.pwned='{}'\">"
PRINTS = """
import os, pathlib, sys
evil = sys.argv[1]
print("penstock: step=1 total=9 loss=1", f"{evil.split()[0]}=2", "a<b>=3", flush=True)
print(f"penstock: unreadable step=1 used=0 reason={evil}", flush=True)
print(f"penstock: checkpoint step=1 path={evil}", flush=True)
home = pathlib.Path(os.environ["PENSTOCK_CHECKPOINT_DIR"])
home.mkdir(parents=True, exist_ok=True)
(home / evil.replace("/", "_")).write_text(evil)
print(evil, flush=True)
raise RuntimeError(evil)
"""


def _evil(where: str) -> str:
    return EVIL.replace("{}", where)


def test_no_page_runs_what_stands_in_texts_of_users_and_jobs(browser: Browser, site: WebSite) -> None:
    (site.folder / "prints.py").write_text(PRINTS)
    job = site.submit(
        "admin", "failed", steps=9, script="prints.py", args=[_evil("output")], retries=0,
        environment={"working_dir": str(site.folder), "env": {"EVIL": _evil("variable")}},
    )  # fmt: skip
    made = site.ask(lambda client: client.make_token(name=_evil("token"), tenant="blue"))
    try:
        with tab(browser, site) as admin:
            page = admin.page
            for path in (
                "/", "/jobs", f"/jobs/{job}", f"/compare?jobs={job},{quote(_evil('jobs'))}", f"/submit?from={job}",
                "/tenants", "/tokens", "/nodes", "/what-if", f"/{quote(_evil('address').replace('/', ''))}",
            ):  # fmt: skip
                admin.go(path)
                page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
                assert page.evaluate("window.pwned") is None, path
            page.goto(f"{site.url}/ui/sign-in?next={quote(_evil('next'))}")
            assert page.evaluate("window.pwned") is None
            admin.go(f"/jobs/{job}")
            expect(page.get_by_text(_evil("output")).first).to_be_visible()
    finally:
        site.ask(lambda client: client.revoke_token(made.id))


def test_markup_in_a_page_runs_nothing(browser: Browser, site: WebSite) -> None:
    with tab(browser, site) as admin:
        page = admin.go("/jobs")
        assert admin.complaints == []
        page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", _evil("markup"))
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {text: 'window.pwned = 1'}))"
        )
        page.wait_for_function("document.querySelector('img[onerror]')?.complete")
        assert page.evaluate("window.pwned") is None
        assert any("Content Security Policy" in one for one in admin.complaints)
