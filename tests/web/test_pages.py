"""The pages as a person uses them: real jobs, a real browser."""

import os
import re
import signal

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from penstock.client import Client
from penstock.wire import JobView
from tests.live.site import until
from tests.web.browsing import Tab, tab
from tests.web.site import WebSite

pytestmark = pytest.mark.xdist_group("browser")


def written(page: Page, text: str) -> None:
    """A job file, typed into the form."""
    page.get_by_role("button", name="Job file").click()
    page.get_by_label("Job file (YAML)").fill(text)


def test_a_new_job_is_empty_and_has_no_answer(browser: Browser, site: WebSite) -> None:
    with tab(browser, site, "ada") as ada:
        page = ada.go("/submit")
        expect(page.get_by_role("region", name="The promise")).to_contain_text("Fill in the job")
        for field in page.get_by_role("region", name="The job").get_by_role("textbox").all():
            assert field.input_value() in ("", "1h")
        page.get_by_label("Command that every worker runs").fill("python train.py")
        page.get_by_label("Work, such as").fill("5 steps")
        page.get_by_label("Working directory on the server").fill("/tmp")
        expect(page.get_by_role("region", name="The promise").locator(".ps-badge")).to_be_visible()


def test_submit_with_a_quote_and_watch_it_to_the_end(browser: Browser, site: WebSite) -> None:
    with tab(browser, site, "ada") as ada:
        page = ada.go("/submit")
        written(page, yaml.safe_dump(site.spec(40, 0.05, name="watched") | {"best_effort": None}))
        promise = page.get_by_role("region", name="The promise")
        page.get_by_role("button", name="Best effort").click()
        expect(promise.get_by_text("best effort", exact=True)).to_be_visible()
        page.get_by_role("button", name="Submit").click()
        expect(page).to_have_url(re.compile(r"/ui/jobs/j-\w+$"))
        job = page.get_by_role("region", name="This job")
        expect(job.get_by_text("running", exact=True)).to_be_visible()
        expect(job.get_by_text("finished", exact=True)).to_be_visible()
        expect(job.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "100")
        expect(page.get_by_role("log")).to_contain_text("the <end>")
        expect(page.get_by_role("region", name="Story")).to_contain_text("finished")
        assert ada.complaints == []


def test_the_answer_follows_the_deadline(browser: Browser, site: WebSite) -> None:
    with tab(browser, site, "ada") as ada:
        page = ada.go("/submit")
        site.teach(site.spec(150), {1: 20.0, 2: 36.0, 4: 60.0}, tenant="blue")
        written(page, yaml.safe_dump(site.spec(150, name="asked") | {"best_effort": None}))
        promise = page.get_by_role("region", name="The promise")
        page.get_by_label("Deadline from now").fill("1h")
        expect(promise.get_by_text("promised", exact=True)).to_be_visible()
        expect(promise).to_contain_text("Device time")
        expect(page.get_by_role("img", name=re.compile("shortest of these"))).to_be_visible()
        page.get_by_label("Deadline from now").fill("1s")
        expect(promise.get_by_text("refused", exact=True)).to_be_visible()
        expect(promise).to_contain_text("Could be promised")
        page.get_by_label("Deadline from now").fill("soon")
        expect(promise.get_by_role("alert")).to_contain_text("'soon' is not a duration")


def test_moving_the_slider_moves_the_deadline(browser: Browser, site: WebSite) -> None:
    with tab(browser, site, "ada") as ada:
        page = ada.go("/submit")
        field = page.get_by_label("Deadline from now")
        expect(field).to_have_value("1h")
        slider = page.get_by_role("slider", name="Deadline")
        slider.focus()
        page.keyboard.press("End")
        expect(field).to_have_value("14d")
        field.fill("2h")
        expect(slider).to_have_attribute("aria-valuetext", "2h")
        page.get_by_role("button", name="Best effort").click()
        expect(slider).to_be_hidden()


def test_a_wrong_job_file_is_explained_and_nothing_is_submitted(browser: Browser, site: WebSite) -> None:
    with tab(browser, site, "ada") as ada:
        page = ada.go("/submit")
        written(page, "scrpt: train.py\nwork: 5 steps\n")
        expect(page.get_by_role("alert")).to_contain_text("scrpt")
        page.get_by_role("button", name="Submit").click()
        expect(page.get_by_role("alert")).to_contain_text("script")
        expect(page).to_have_url(f"{site.url}/ui/submit")


def test_cancel_from_the_page(browser: Browser, site: WebSite) -> None:
    job = site.submit("ada", steps=2000)
    with tab(browser, site, "ada") as ada:
        page = ada.go(f"/jobs/{job}")
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("button", name="Keep it").click()
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("button", name="Cancel the job").click()
        expect(page.get_by_role("region", name="This job").get_by_text("cancelled", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Pause", exact=True)).to_be_hidden()
        assert site.ask(lambda client: client.job(job)).state == "cancelled"


def test_pause_and_resume_from_the_page(browser: Browser, site: WebSite) -> None:
    job = site.submit("ada", steps=2000)
    with tab(browser, site, "ada") as ada:
        page = ada.go(f"/jobs/{job}")
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.get_by_text(re.compile("cannot resume: .* of work would be lost"))).to_be_visible()
        page.get_by_role("button", name="Pause it anyway").click()
        state = page.get_by_role("region", name="This job")
        expect(state.get_by_text("paused", exact=True)).to_be_visible()
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("button", name="Resume it").click()
        expect(state.get_by_text("running", exact=True)).to_be_visible()


def test_the_output_can_be_searched(browser: Browser, site: WebSite) -> None:
    job = site.submit("ada", "finished", steps=30, pause_s=0.01)
    with tab(browser, site, "ada") as ada:
        page = ada.go(f"/jobs/{job}")
        expect(page.get_by_role("log")).to_contain_text("step=30")
        page.get_by_label("Search the output").fill("STEP=7 ")
        expect(page.get_by_role("log")).not_to_contain_text("step=30")
        expect(page.locator(".ps-log mark").first).to_have_text("step=7 ")


def test_a_resize_is_seen_in_the_picture_of_the_cluster(browser: Browser, site: WebSite) -> None:
    """The first job cannot resume, so it makes room only for a promise that cannot wait until it is through."""
    site.teach(site.spec(40_000), {2: 15.0, 4: 20.0}, "default")
    wide = site.submit("admin", steps=40_000, name="wide", devices="2..4")
    site.wait(lambda client: len(client.job(wide).devices) == 4, "the first job to take everything")
    site.wait(lambda client: _step(client.job(wide)) > 0, "the first job to train on all of it")
    with tab(browser, site) as admin:
        page = admin.go("/")
        narrow = site.submit("admin", steps=40_000, name="narrow", devices="2", deadline="70m")
        site.wait(lambda client: len(client.job(wide).devices) == 2, "the first job to make room")
        page.get_by_text("As a table").first.click()
        rows = page.locator("figure", has_text="Devices over time").get_by_role("row")
        expect(rows.filter(has_text=wide).filter(has_text="held")).to_have_count(2)
        expect(rows.filter(has_text="narrow").filter(has_text="held")).to_have_count(1)
        expect(page.get_by_role("img", name=re.compile("Devices over time: 4 of 4"))).to_be_visible()
        shapes = [page.locator(f"path:not(.ps-planned)[data-goes$='{one}']") for one in (wide, narrow)]
        colours = {shape.evaluate("shape => getComputedStyle(shape).fill") for shape in shapes}
        assert len(colours) == 2, "two jobs are drawn in two colours"
        planned = page.locator(f"path.ps-planned[data-goes$='{narrow}']")
        planned.hover()
        expect(page.locator(".ps-tip")).to_contain_text(narrow)
        planned.click()
        expect(page).to_have_url(f"{site.url}/ui/jobs/{narrow}")


def test_the_first_page_is_readable_before_any_script(browser: Browser, site: WebSite) -> None:
    job = site.submit("admin", steps=4000, name="early")
    with tab(browser, site, java_script_enabled=False) as admin:
        page, held = admin.page, "4 of 4 devices are held"
        until(
            lambda: held in page.request.get(f"{site.url}/ui/").text(), "a page that has caught up with the job", 60.0
        )
        page.goto(f"{site.url}/ui/")
        picture = page.get_by_role("img", name=re.compile("Devices over time: 4 of 4 devices are held"))
        expect(picture.locator("svg path").first).to_be_visible()
        expect(page.locator(".ps-tile").filter(has_text="Devices in use")).to_contain_text("4 of 4")
        page.goto(f"{site.url}/ui/jobs/{job}")
        expect(page.get_by_role("region", name="This job")).to_contain_text("running")
        page.get_by_role("navigation").get_by_role("link", name="Nodes").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Nodes")


def test_a_lost_worker_is_marked(browser: Browser, site: WebSite) -> None:
    job = site.submit("admin", steps=4000, name="unlucky", retries=0)
    worker = until(lambda: [one for one in site.workers() if one.run_id.startswith(job)], "its workers")[0]
    os.kill(worker.pid, signal.SIGKILL)
    site.wait(lambda client: client.job(job).state == "failed", "the job to fail")
    with tab(browser, site) as admin:
        page = admin.go("/")
        expect(page.get_by_role("img", name=re.compile(r"[1-9]\d* failures"))).to_be_visible()
        admin.go(f"/jobs/{job}")
        expect(page.get_by_role("region", name="This job").get_by_text("failed", exact=True)).to_be_visible()


def test_an_array_is_a_line_with_buttons_for_all_of_its_jobs(browser: Browser, site: WebSite) -> None:
    with site.client("ada") as client:
        spec = site.spec(steps=100_000, pause_s=0.05, name="grid")
        array = client.submit_array(spec, "1..3").id
    with tab(browser, site, "ada") as ada:
        page = ada.go("/jobs")
        line = page.get_by_role("region", name="Job arrays")
        expect(line).to_contain_text("3 jobs")
        line.get_by_role("button", name=f"Pause array {array}").click()
        page.get_by_role("button", name="Pause it anyway").click()
        expect(line).to_contain_text("3 paused")
        line.get_by_role("link", name="grid").click()
        expect(page.get_by_role("row").filter(has_text="grid-")).to_have_count(3)
        page.get_by_role("button", name=f"Cancel array {array}").click()
        page.get_by_role("button", name="Cancel the array").click()
        expect(page.get_by_role("region", name="Job arrays")).to_be_hidden()
        expect(page.get_by_role("row").filter(has_text="cancelled")).to_have_count(3)


def test_the_list_is_searched_and_filtered_on_the_server(browser: Browser, site: WebSite) -> None:
    for number in range(12):
        site.submit("ada", "finished", "running", "pending", steps=1, pause_s=0.0, name=f"list-{number}")
    with tab(browser, site, "ada") as ada:
        page = ada.go("/jobs")
        page.get_by_label("Search by name or id").fill("list-1")
        expect(page.get_by_role("row").filter(has_text="list-")).to_have_count(3)
        page.get_by_label("Search by name or id").fill("100%_nobody")
        expect(page.get_by_text("No jobs")).to_be_visible()
        page.get_by_label("Search by name or id").fill("list-11")
        page.get_by_role("link", name="list-11").click()
        expect(page.get_by_role("region", name="This job")).to_contain_text("list-11")


def test_draining_a_node_says_what_becomes_of_its_jobs(browser: Browser, site: WebSite) -> None:
    job = site.submit("ada", "running", steps=2000, name="lasting")
    with tab(browser, site) as admin:
        page = admin.go("/nodes")
        page.get_by_role("button", name=re.compile("Drain node")).click()
        expect(page.get_by_text(re.compile("lasting cannot resume: it ends there first"))).to_be_visible()
        page.get_by_role("button", name="Drain it").click()
        expect(page.get_by_text("draining", exact=True)).to_be_visible()
        page.get_by_role("button", name=re.compile("Use node")).click()
        expect(page.get_by_text("up", exact=True)).to_be_visible()
    site.ask(lambda client: client.cancel(job))


def test_draining_a_node(browser: Browser, site: WebSite) -> None:
    with tab(browser, site) as admin:
        page = admin.go("/nodes")
        page.get_by_role("button", name=re.compile("Drain node")).click()
        expect(page.get_by_text("drained", exact=True)).to_be_visible()
        page.get_by_role("button", name=re.compile("Use node")).click()
        expect(page.get_by_text("up", exact=True)).to_be_visible()


def test_the_past_under_other_policies(browser: Browser, site: WebSite) -> None:
    site.submit("ada", "finished", steps=5, pause_s=0.01)
    with tab(browser, site) as admin:
        page = admin.go("/what-if")
        page.get_by_role("button", name="Replay").click()
        table = page.get_by_role("region", name="Comparison")
        expect(table.get_by_role("row")).to_have_count(3, timeout=60_000)
        expect(table.get_by_role("row").nth(1)).to_contain_text("as it was")
        expect(page.get_by_role("region", name="In words")).to_contain_text("fewer than 20 tell nothing about a policy")


def test_nobody_sees_or_touches_what_is_not_theirs(browser: Browser, site: WebSite) -> None:
    job = site.submit("ada", steps=2000, name="secret-job")
    with tab(browser, site, "eve") as eve:
        page = eve.go(f"/jobs/{job}")
        expect(page.get_by_text("No such job")).to_be_visible()
        eve.go("/jobs")
        expect(page.get_by_text("No jobs")).to_be_visible()
        assert not _mentions(eve, "secret-job", job)
        eve.go("/")
        expect(page.get_by_role("img", name=re.compile("4 of 4 devices are held"))).to_be_visible()
        assert not _mentions(eve, "secret-job", job)
        eve.go("/nodes")
        expect(page.get_by_role("button", name=re.compile("Drain"))).to_have_count(0)
        eve.go("/what-if")
        expect(page.get_by_text("For admins")).to_be_visible()
        eve.go("/tenants")
        assert not _mentions(eve, "blue")


def _mentions(who: Tab, *words: str) -> bool:
    """Whether anything that reached the browser holds one of the words."""
    content = who.page.content()
    return any(word in content for word in words)


def test_a_page_survives_a_restart_of_the_server(browser: Browser, site: WebSite) -> None:
    with tab(browser, site, "ada") as ada:
        page = ada.go("/jobs")
        site.stop_server_only()
        site.start()
        site.submit("ada", "finished", "running", steps=3, name="after-the-restart")
        expect(page.get_by_role("link", name="after-the-restart").first).to_be_visible(timeout=30_000)


def test_what_happens_appears_by_itself(browser: Browser, site: WebSite) -> None:
    with tab(browser, site, "ada") as ada:
        page = ada.go("/jobs")
        job = site.submit("ada", "finished", steps=3, name="appears")

        def done(client: Client) -> bool:
            return client.job(job).state == "finished"

        site.wait(done, "the job to end")
        expect(page.get_by_role("row").filter(has_text=job)).to_contain_text("finished")
        expect(page.get_by_role("row").filter(has_text=job)).to_contain_text("100 %")


def _step(job: JobView) -> int:
    """What the run itself has told; nothing until its workers are there."""
    return (job.progress.step or 0) if job.progress is not None else 0
