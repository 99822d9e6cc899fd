"""The page in a real browser: it draws, it answers keys, it asks nobody for anything, in the light and in the dark."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from penstock.core import Cluster
from penstock.simulate import Setting, Workload, compare
from penstock.simulate.report import write_report
from penstock.simulate.traces import Profiles, Trace, generate

POLICIES = ["deadline", "fifo", "tiresias"]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    profiles = Profiles.builtin()
    jobs = generate(80, seed=4, profiles=profiles, mean_interval_s=150, best_effort=0.2)
    workload = Workload(trace=Trace.assemble("busy", "plain", jobs), profiles=profiles)
    setting = Setting(cluster=Cluster.parse("2x8"), timeline=True)
    target = tmp_path_factory.mktemp("pages") / "report.html"
    write_report(target, workload, setting, compare(POLICIES, workload, setting, processes=1))
    return target


def opened(browser: Browser, path: Path, **options: object) -> tuple[Page, list[str]]:
    """The page once it has drawn everything, and all that went wrong or left the file on the way."""
    trouble: list[str] = []
    page = browser.new_page(**options)  # type: ignore[arg-type]
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: None if request.url.startswith("file:") else trouble.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=60_000)
    return page, trouble


def ink(page: Page, canvas: str) -> int:
    """How many different colours a canvas shows."""
    return int(
        page.evaluate(
            """(selector) => {
              const canvas = document.querySelector(selector), pen = canvas.getContext("2d");
              const data = new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
              return new Set(data).size;
            }""",
            canvas,
        )
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_and_nothing_is_fetched(browser: Browser, page_file: Path, scheme: str) -> None:
    page, trouble = opened(browser, page_file, color_scheme=scheme)
    assert trouble == []
    for chart in ("#cdf-jct", "#cdf-wait", "#use", "#queue"):
        assert page.locator(f"{chart} path.line").count() == len(POLICIES)
    assert page.locator("#fates rect").count() >= len(POLICIES)
    assert ink(page, ".gantt canvas") > 5
    assert ink(page, "#scatter canvas") > 5
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) > 384) == (scheme == "light")
    page.close()


def test_a_policy_can_be_taken_out_and_put_back(browser: Browser, page_file: Path) -> None:
    page, trouble = opened(browser, page_file)
    chip = page.locator(".legend .chip", has_text="tiresias")
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    assert page.locator("#cdf-jct path.line").count() == len(POLICIES) - 1
    chip.click()
    assert page.locator("#cdf-jct path.line").count() == len(POLICIES)
    assert trouble == []
    page.close()


def test_the_gantt_zooms_by_keyboard_and_by_button(browser: Browser, page_file: Path) -> None:
    page, trouble = opened(browser, page_file)
    drawing = "document.querySelector('.gantt canvas').toDataURL()"
    settle = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    whole = page.evaluate(drawing)
    page.locator(".gantt canvas").first.focus()
    page.keyboard.press("+")
    page.evaluate(settle)
    closer = page.evaluate(drawing)
    assert closer != whole
    page.keyboard.press("ArrowRight")
    page.evaluate(settle)
    assert page.evaluate(drawing) not in (whole, closer)
    page.locator("#zoom-all").click()
    page.evaluate(settle)
    all_of_it = page.evaluate(drawing)
    page.locator("#zoom-in").click()
    page.evaluate(settle)
    assert page.evaluate(drawing) != all_of_it
    assert trouble == []
    page.close()


def test_pointing_and_arrow_keys_tell_values(browser: Browser, page_file: Path) -> None:
    page, _ = opened(browser, page_file)
    page.locator("#cdf-jct").focus()
    page.keyboard.press("End")
    tip = page.locator("#cdf-jct .tip")
    assert tip.is_visible()
    assert all(name in tip.inner_text() for name in POLICIES)
    page.locator("#scatter canvas").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#scatter .tip").is_visible()
    page.locator("#scatter-what").select_option("wait")
    assert "jobs that both policies ran" in page.locator("#scatter-said").inner_text()
    page.close()


def test_every_chart_has_a_name_and_a_table(browser: Browser, page_file: Path) -> None:
    page, _ = opened(browser, page_file)
    for picture in page.locator(".chart svg, canvas").all():
        assert picture.get_attribute("role") == "img"
        assert (picture.get_attribute("aria-label") or "").strip()
    assert page.locator("details table").count() == 7
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, select')]
             .filter((one) => !(one.innerText || one.ariaLabel || one.labels?.length)).length"""
    )
    assert unnamed == 0
    page.close()


def test_it_fits_on_a_phone(browser: Browser, page_file: Path) -> None:
    page, trouble = opened(browser, page_file, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert trouble == []
    page.close()


def test_light_and_dark_can_be_switched_by_hand(browser: Browser, page_file: Path) -> None:
    page, _ = opened(browser, page_file, color_scheme="light")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.close()


def test_it_prints(browser: Browser, page_file: Path, tmp_path: Path) -> None:
    page, _ = opened(browser, page_file)
    page.emulate_media(media="print")
    assert not page.locator(".legend").is_visible()
    assert page.pdf(path=tmp_path / "report.pdf").startswith(b"%PDF")
    page.close()
