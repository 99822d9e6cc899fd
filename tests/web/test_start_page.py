"""The start page, a failed job and the pages of admins in a real browser: what people look for is there, and works."""

import re

import pytest
from playwright.sync_api import Browser, expect

from penstock.client import Client
from penstock.wire import UnauthorizedError
from tests.web.browsing import tab
from tests.web.site import WebSite

pytestmark = pytest.mark.xdist_group("browser")
FAILS = """
import os, sys
with open(os.environ["PENSTOCK_CHECKPOINT_DIR"] + "/notes.txt", "w") as notes:
    notes.write("channels: 4")
print("INFO all is well", flush=True)
print("WARNING it gets warm", flush=True)

def load(name):
    raise ValueError(f"{name} has 4 channels")

load(sys.argv[1])
"""


def test_jobs_of_now_come_first_with_deadline_end_and_outlook_on_a_phone_too(browser: Browser, site: WebSite) -> None:
    spec = site.spec(20_000, 0.05, name="urgent", deadline="5h", devices="1")
    site.teach(spec, {1: 18.0}, tenant="blue")
    with site.client("ada") as client:
        job = client.submit(spec).job.id
    site.wait(lambda client: client.job(job).state == "running", "the job to run")
    with tab(browser, site, "ada", timezone_id="Asia/Tokyo") as ada:
        page = ada.go("/")
        expect(page.get_by_text("Times: Asia/Tokyo.")).to_be_visible()
        line = page.get_by_role("region", name="Jobs now").get_by_role("row").filter(has_text="urgent")
        expect(line.get_by_text("on time")).to_be_visible()
        expect(line).to_contain_text(re.compile(r"promised, .* to spare"))
        expect(page.get_by_role("region", name="Jobs now")).to_contain_text("3 devices free")
        expect(page.locator("main section, main figure").first).to_have_attribute("aria-label", "Jobs now")
        ada.page.set_viewport_size({"width": 390, "height": 844})
        for cell in (".ps-c-deadline", ".ps-c-expected", ".ps-c-risk"):
            expect(line.locator(cell)).to_be_visible()
        ada.go("/jobs")
        row = page.get_by_role("row").filter(has_text="urgent")
        for cell in (".ps-c-deadline", ".ps-c-expected", ".ps-c-promise"):
            expect(row.locator(cell)).to_be_visible()
        expect(row.locator(".ps-c-deadline")).to_have_text(re.compile(r"\d\d:\d\d"))
        ada.go(f"/jobs/{job}")
        page.get_by_role("button", name="Change", exact=True).click()
        page.get_by_label("New deadline").fill("4h")
        page.get_by_role("button", name="Change it").click()
        expect(page.get_by_text(f"{job} is changed")).to_be_visible()
        expect(page.get_by_role("region", name="Job file")).to_contain_text("deadline: 4h")


def test_a_failed_job_says_why_shows_its_errors_and_is_submitted_again(browser: Browser, site: WebSite) -> None:
    (site.folder / "fails.py").write_text(FAILS)
    spec = site.spec(5, name="broken", script="fails.py", args=["faces"], retries=0, devices="1")
    with site.client("ada") as client:
        job = client.submit(spec).job.id
    site.wait(lambda client: client.job(job).state == "failed", "the job to fail")
    with tab(browser, site, "ada") as ada:
        page = ada.go(f"/jobs/{job}")
        why = page.get_by_role("region", name="Why it failed")
        expect(why).to_contain_text("ValueError: faces has 4 channels")
        expect(why).to_contain_text('fails.py", line 11')
        expect(page.locator("main section").first).to_have_attribute("aria-label", "Why it failed")
        expect(page.locator("figure").filter(has_text="Speed over time")).to_be_hidden()
        log = page.get_by_role("log")
        page.get_by_label("Level").click()
        page.get_by_role("option", name="Errors", exact=True).click()
        expect(log).not_to_contain_text("it gets warm")
        expect(log).to_contain_text("raise ValueError")
        with page.expect_download() as saved:
            page.get_by_role("link", name="Download").click()
        assert "it gets warm" in saved.value.path().read_text()
        with page.expect_download() as saved:
            page.get_by_role("region", name="Saved").get_by_role("link", name="notes.txt").click()
        assert saved.value.path().read_text() == "channels: 4"
        page.get_by_role("button", name="Submit again").click()
        file = page.get_by_label("Job file (YAML)")
        expect(file).to_have_value(re.compile("name: broken"))
        file.fill(file.input_value().replace("name: broken", "name: mended"))
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(page).to_have_url(re.compile(rf"/ui/jobs/(?!{job})j-\w+$"))
        expect(page.get_by_role("region", name="This job")).to_contain_text("mended")
        assert ada.complaints == []


def test_output_of_others_is_not_for_download(browser: Browser, site: WebSite) -> None:
    job = site.submit("ada", "finished", steps=2, pause_s=0.01)
    with tab(browser, site, "eve") as eve:
        for file in ("output.txt", "files?path=notes.txt"):
            assert eve.context.request.get(f"{site.url}/ui/jobs/{job}/{file}").status == 404
    with tab(browser, site, None) as stranger:
        answer = stranger.context.request.get(f"{site.url}/ui/jobs/{job}/output.txt", max_redirects=0)
        assert (answer.status, "sign-in" in answer.headers["location"]) == (303, True)


def test_admins_make_and_revoke_tokens_and_set_quotas(browser: Browser, site: WebSite) -> None:
    with tab(browser, site) as admin:
        page = admin.go("/tokens")
        form = page.get_by_role("region", name="New token")
        form.get_by_role("button", name="Make a token").click()
        expect(page.get_by_text(re.compile("name: ''. Allowed: not empty"))).to_be_visible()
        form.get_by_label("Whose it is, or what for").fill("pipeline")
        form.get_by_label("Tenant").fill("blue")
        form.get_by_label("Ends after").fill("30d")
        form.get_by_role("button", name="Make a token").click()
        secret = form.locator("pre").inner_text().strip()
        with Client(site.url, secret) as client:
            assert client.jobs(limit=1) is not None
        page.get_by_role("button", name="Revoke pipeline").click()
        page.get_by_role("button", name="Revoke it").click()
        expect(page.get_by_role("row").filter(has_text="pipeline")).to_have_count(0)
        with Client(site.url, secret) as client, pytest.raises(UnauthorizedError):
            client.jobs(limit=1)
        admin.go("/tenants")
        quotas = page.get_by_role("region", name="Quotas")
        quotas.get_by_label("Tenant, or * for all others").fill("green")
        quotas.get_by_label("Devices").fill("2")
        quotas.get_by_role("button", name="Set the quota").click()
        expect(quotas.get_by_role("row").filter(has_text="green")).to_contain_text("2")
        shares = page.get_by_role("region", name="Shares of tenants")
        shares.get_by_label("Tenant or group").fill("green")
        shares.get_by_label("Quota").fill("1")
        shares.get_by_label("Group", exact=True).fill("plants")
        shares.get_by_role("button", name="Set the tenant").click()
        line = shares.get_by_role("row").filter(has_text="green")
        expect(line).to_contain_text("quota 1")
        expect(line.get_by_role("progressbar", name="fairness of green: 1.00")).to_be_visible()
    with tab(browser, site, "eve") as eve:
        page = eve.go("/tokens")
        expect(page.get_by_text("For admins")).to_be_visible()
        expect(page.get_by_role("link", name="Tokens")).to_have_count(0)
        eve.go("/nowhere")
        expect(page.get_by_text("This address leads nowhere")).to_be_visible()
        expect(page.get_by_role("navigation")).to_be_visible()
