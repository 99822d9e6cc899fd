"""Metrics on the pages, in a real browser: drawn as they come, over steps or time, and jobs side by side."""

import re
import sys

import pytest
from playwright.sync_api import Browser, expect

from tests.web.browsing import tab
from tests.web.site import WebSite

pytestmark = pytest.mark.xdist_group("browser")

SCRIPT = """
import math, sys
for step in range(1, 81):
    loss = 3 * math.exp(-step / 20) * float(sys.argv[1]) + 0.1 * math.sin(step)
    print(f"penstock: step={step} total=80 loss={loss} val_acc={1 - 1 / step}", flush=True)
"""


@pytest.fixture
def jobs(site: WebSite) -> tuple[str, str]:
    (site.folder / "curves.py").write_text(SCRIPT)
    keys = {"steps": 80, "script": "curves.py"}
    return tuple(site.submit("ada", "finished", name=f"run-{scale}", args=[scale], **keys) for scale in ("1", "2"))  # type: ignore[return-value]


def test_curves_of_one_job_and_of_two_side_by_side(browser: Browser, site: WebSite, jobs: tuple[str, str]) -> None:
    with tab(browser, site, "ada") as ada:
        page = ada.go(f"/jobs/{jobs[0]}")
        accuracy = page.get_by_role("img", name=re.compile(r"^val_acc: 0.9875 at step 80, from 0 to 0.9875"))
        expect(accuracy).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^loss: "))).to_be_visible()
        metrics = page.get_by_role("region", name="Metrics")
        metrics.get_by_text("Log scale").click()
        metrics.get_by_role("button", name="Time").click()
        metrics.get_by_role("slider", name="Smoothing").focus()
        page.keyboard.press("End")
        expect(accuracy).to_be_visible()
        metrics.get_by_role("link", name="Compare with others").click()
        expect(page).to_have_url(re.compile(r"/ui/compare\?jobs=j-\w+$"))
        field = page.get_by_label("Jobs: names or ids")
        field.fill("run-1, run-2")
        page.get_by_role("button", name="Compare", exact=True).click()
        expect(page).to_have_url(re.compile(r"/ui/compare\?jobs=run-1,run-2$"))
        expect(page.get_by_role("img", name=re.compile(r"^loss: run-1: .*; run-2: "))).to_be_visible()
        expect(page.get_by_role("region", name="Last values")).to_contain_text("0.9875 at 80")
        expect(page.get_by_role("region", name="Differences")).to_contain_text("args")
        page.get_by_role("navigation", name="Main").get_by_role("link", name="Jobs", exact=True).click()
        expect(page.get_by_role("button", name="Select 2 to 10 jobs")).to_be_disabled()
        for name in ("run-1", "run-2"):
            page.get_by_role("checkbox", name=f"Select {name}", exact=True).click()
        page.get_by_role("button", name="Compare 2 jobs").click()
        expect(page).to_have_url(re.compile(r"/ui/compare\?jobs=j-\w+,j-\w+$"))
        expect(page.get_by_role("img", name=re.compile(r"^loss: run-1: .*; run-2: "))).to_be_visible()
        assert ada.complaints == []
    with tab(browser, site, "eve") as eve:
        eve.page.goto(f"{site.url}/ui/compare?jobs={jobs[0]}")
        expect(eve.page.locator("body")).to_contain_text("No such job")


def test_what_an_evaluation_of_a_checkpoint_found_is_on_the_page_of_the_job(browser: Browser, site: WebSite) -> None:
    (site.folder / "saving.py").write_text("print('penstock: checkpointed step=80 path=/nowhere/80.pt', flush=True)\n")
    evaluate = {"command": [sys.executable, "-c", "print('penstock: arc/accuracy=0.625')"]}
    job = site.submit("ada", "finished", name="evaluated", steps=80, script="saving.py", evaluate=evaluate)
    with tab(browser, site, "ada") as ada:
        page = ada.go(f"/jobs/{job}")
        expect(page.get_by_role("region", name="Evaluations")).to_contain_text("arc/accuracy 0.625")
        expect(page.get_by_role("img", name=re.compile(r"^eval.arc.accuracy: 0.625 at step 80"))).to_be_visible()
        page.get_by_role("link", name=re.compile(r"^e-\w+-80$")).click()
        expect(page.get_by_role("heading", name=re.compile("^evaluated-eval-80"))).to_be_visible()
        assert ada.complaints == []
