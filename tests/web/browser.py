"""Debian's chromium, driven by selenium: with an empty profile, and without a network of its own.

And what a person does at the page: press a word, wait for the answer, read a list.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

SETTLED = "return document.body.dataset.settled"
DRAWN = "return document.body.dataset.drawn"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def needed() -> bool:
    """Whether tests must fail, not be skipped, where there is no browser."""
    return bool(os.environ.get("CI") or os.environ.get("UNMASK_REQUIRE_BROWSER"))


def find() -> tuple[str, str]:
    """Return chromium and its driver; skips where they are not, unless they must be there."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        line = "no browser to test the page with: apt-get install chromium chromium-driver"
        if needed():
            pytest.fail(line)
        pytest.skip(line)
    return browser, driver


@contextmanager
def chromium(browser: str, driver: str, width: int = 1200, height: int = 900) -> Iterator[Any]:
    """Start a browser with an empty profile, and end it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        session = webdriver.Chrome(options=options, service=Service(driver))
        try:
            session.set_page_load_timeout(60)
            yield session
        finally:
            session.quit()


def prefer(session: Any, scheme: str) -> None:
    """Let the browser ask for a light or a dark page."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    session.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def until(session: Any, condition: Callable[[], Any], seconds: float = 45) -> Any:
    """Wait until something holds."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(session, seconds, 0.05).until(lambda _: condition())


def settle(session: Any, action: Callable[[], Any]) -> None:
    """Do something that asks the server, and wait for all that comes of it."""
    session.execute_script("delete document.body.dataset.settled")
    action()
    until(session, lambda: session.execute_script(SETTLED))


def redrawn(session: Any, action: Callable[[], Any]) -> None:
    """Do something that draws the maps again, and wait for them."""
    session.execute_script("delete document.body.dataset.drawn")
    action()
    until(session, lambda: session.execute_script(DRAWN))


def by_id(session: Any, name: str) -> Any:
    """Return an element of the page."""
    return session.find_element("id", name)


def word(session: Any, text: str) -> Any:
    """Return a word of the sentence."""
    return session.find_element("xpath", f"//div[@id='words']/button[normalize-space()='{text}']")


def rows(session: Any, name: str, what: str = ".s") -> list[tuple[str, str]]:
    """Return what a list shows: the probability and the text of each line."""
    found = session.find_elements("css selector", f"#{name} li")
    return [
        (line.find_element("css selector", ".p").text, line.find_element("css selector", what).text)
        for line in found
    ]


def shown(p: float) -> str:
    """Return a probability as the page writes it."""
    hundred = 100 * p
    if hundred >= 10:
        return f"{hundred:.1f} %"
    return f"{hundred:.2f} %" if hundred >= 0.01 else f"{hundred:.1e} %".replace("e-0", "e-")


def state(session: Any) -> dict[str, str]:
    """Return the state that the address holds."""
    return {key: value[0] for key, value in parse_qs(urlsplit(session.current_url).fragment).items()}
