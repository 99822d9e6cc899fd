"""A browser that says nothing fails the call that asked it, and nobody after it."""

import pytest

from tests.tools import browser_calls
from tests.tools.browser_calls import SilentBrowserError, close, limited_calls
from tests.tools.engines import SharedBrowser

pytestmark = pytest.mark.xdist_group("browser")
STUCK = "() => { for (;;) {} }"


def test_a_call_without_an_answer_ends_and_says_what_was_asked(browsers: SharedBrowser) -> None:
    page = browsers.get().new_page()
    with limited_calls(1.0) as silent:
        with pytest.raises(SilentBrowserError, match=r"Page\.evaluate\(expression='\(\) => \{ for"):
            page.evaluate(STUCK)
        with pytest.raises(SilentBrowserError, match=r"Keyboard\.press\(key='Enter'\) within 1 s"):
            page.keyboard.press("Enter")
    assert len(silent) == 2
    page.close()


def test_a_call_that_is_answered_keeps_its_answer_and_its_own_errors(browsers: SharedBrowser) -> None:
    page = browsers.get().new_page()
    with limited_calls(30.0) as silent:
        assert page.evaluate("6 * 7") == 42
        with pytest.raises(Exception, match="Timeout 50ms exceeded"):
            page.get_by_role("button").click(timeout=50)
    assert silent == []
    page.close()


def test_a_silent_browser_is_replaced(browsers: SharedBrowser) -> None:
    before = browsers.get()
    assert browsers.get() is before
    browsers.silent.append("Page.evaluate()")
    after = browsers.get()
    assert after is not before
    assert not before.is_connected()
    assert browsers.get() is after


def test_a_profile_that_does_not_close_fails_nobody_and_is_known(
    browsers: SharedBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_calls, "CLOSING_LIMIT_S", 0.5)
    before = browsers.get()
    page = before.new_page()

    class Deaf:
        def close(self) -> None:
            page.evaluate(STUCK)

    close(Deaf())  # type: ignore[arg-type]
    assert any("Page.evaluate" in call for call in browsers.silent)
    assert browsers.get() is not before
