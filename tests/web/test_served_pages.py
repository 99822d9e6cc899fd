"""Every page of a real server, read without a browser: what is sent before any script runs."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from penstock.client import Client, DataDir, ensure_server
from tests.control.serving import end_everything_on

SCRIPT = """
import time
for step in range(1, 1000):
    time.sleep(0.1)
    print(f"penstock: step={step}", flush=True)
"""


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("pages")
    ensure_server(folder / "data", options=["--slots", "2"]).close()
    yield folder / "data"
    end_everything_on(folder / "data")


@pytest.fixture(scope="module")
def job(data_dir: Path) -> str:
    (data_dir.parent / "train.py").write_text(SCRIPT)
    spec = {
        "name": "night-run", "script": "train.py", "work": "1000 steps", "best_effort": True, "profile": "never",
        "environment": {"working_dir": str(data_dir.parent)},
    }  # fmt: skip
    with Client.local(data_dir) as client:
        return client.submit(spec).job.id


@pytest.fixture(scope="module")
def browser(data_dir: Path) -> Iterator[httpx.Client]:
    """Somebody who signed in with the owner's token."""
    address, token = DataDir(data_dir).address(), DataDir(data_dir).owner_token()
    assert address is not None
    with httpx.Client(base_url=address.url, trust_env=False, timeout=60.0) as visitor:
        entered = visitor.post("/ui/sign-in", data={"token": token or "", "next": "/ui/jobs"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/ui/jobs")
        yield visitor


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/ui/", ("Devices over time", "Devices in use")),
        ("/ui/jobs", ("Jobs",)),
        ("/ui/jobs/{job}", ("night-run", "What happened, and why", "train.py")),
        ("/ui/compare?jobs={job}", ("Last values", "Metrics")),
        ("/ui/submit", ("The promise",)),
        ("/ui/tenants", ("Devices held by each tenant",)),
        ("/ui/nodes", ("1 of 1 node up",)),
        ("/ui/what-if", ("Replays every job",)),
    ],
)
def test_a_page_can_be_read_before_its_scripts_run(
    path: str, expected: tuple[str, ...], browser: httpx.Client, job: str
) -> None:
    page = browser.get(path.format(job=job))
    assert page.status_code == 200
    assert [words for words in expected if words not in page.text] == []


def test_a_job_that_is_not_there_is_a_page_that_says_so(browser: httpx.Client) -> None:
    missing = browser.get("/ui/jobs/j-nobody")
    assert missing.status_code == 404
    assert "No such job" in missing.text


def test_without_a_session_every_page_leads_to_the_form(data_dir: Path) -> None:
    address = DataDir(data_dir).address()
    assert address is not None
    with httpx.Client(base_url=address.url, trust_env=False) as stranger:
        for path in ("/ui/", "/ui/jobs", "/ui/what-if"):
            sent = stranger.get(path)
            assert sent.status_code in (303, 307)
            assert "/ui/sign-in" in sent.headers["location"]
        refused = stranger.post("/ui/sign-in", data={"token": "made up"})
        assert refused.status_code == 401
        assert "This token is not valid." in refused.text
