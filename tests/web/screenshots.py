"""Pictures of every page for the documentation, of a real platform with jobs on it: ``make screenshots``."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.tools.engines import shared_browser
from tests.web.browsing import Tab, tab
from tests.web.lively_site import LivelySite
from tests.web.palette_png import palette_png

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
_TALLEST = {"desktop": 1900, "phone": 1900}
_MOST_BYTES = 1_500_000
_SETTLED_MS = 2000
"""Charts are drawn a moment after their figures are there."""


def main(folder: Path = PICTURES) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-pictures-", ignore_cleanup_errors=True) as name:
        site = LivelySite(Path(name))
        try:
            site.open()
            site.fill()
            with shared_browser() as browsers:
                sizes = taken(browsers.get(), site, folder)
        finally:
            site.close()
    print(f"{len(sizes)} pictures, {sum(sizes.values()) / 1e6:.2f} MB")
    assert sum(sizes.values()) < _MOST_BYTES, "the pictures are too large for a repository"


def pages(site: LivelySite) -> dict[str, str]:
    """The name of each picture, and the page on it."""
    running, failed = site.jobs["resnet-night"], site.jobs["broken-images"]
    both = f"{running},{site.jobs['speech-base']}"
    return {
        "start": "/", "jobs": "/jobs", "compare": f"/compare?jobs={both}",
        "job": f"/jobs/{running}", "failed-job": f"/jobs/{failed}",
        "tenants": "/tenants", "tokens": "/tokens", "nodes": "/nodes", "what-if": "/what-if",
    }  # fmt: skip


def taken(browser: Browser, site: LivelySite, folder: Path) -> dict[str, int]:
    """Every page on a screen and on a phone; the start page in the dark as well, and the form as its user sees it."""
    sizes = {}
    form = {"submit": f"/submit?from={site.jobs['warm-up']}"}
    for device, view in (("desktop", DESKTOP), ("phone", PHONE)):
        for who, wanted in (("ada", form), ("admin", pages(site))):
            with tab(browser, site, who, color_scheme="light", timezone_id="Europe/Berlin") as visitor:
                visitor.page.set_viewport_size(view)  # type: ignore[arg-type]
                for name, path in wanted.items():
                    file = folder / f"{name}-{device}.png"
                    sizes[file.stem] = picture(visitor, path, file, _TALLEST[device])
    with tab(browser, site, color_scheme="dark", timezone_id="Europe/Berlin") as admin:
        sizes["start-dark"] = picture(admin, "/", folder / "start-dark.png", _TALLEST["desktop"])
    return sizes


def picture(visitor: Tab, path: str, file: Path, tallest: int) -> int:
    """One page, as far down as is worth looking; its size in bytes."""
    page = visitor.go(path)
    page.wait_for_function("() => window.socket?.connected ?? true")
    if path == "/what-if":
        page.get_by_role("button", name="Replay").click()
        page.get_by_role("region", name="Comparison").wait_for(timeout=120_000)
    if "/submit" in path:
        page.get_by_label("Deadline from now").fill("40m")
        page.get_by_role("region", name="The promise").locator(".ps-badge").wait_for()
    page.wait_for_timeout(_SETTLED_MS)
    size = page.viewport_size or DESKTOP
    height = min(tallest, max(size["height"], page.evaluate("document.documentElement.scrollHeight")))
    page.set_viewport_size({"width": size["width"], "height": height})
    file.write_bytes(palette_png(page, page.screenshot(animations="disabled")))
    page.set_viewport_size(size)
    return file.stat().st_size


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
