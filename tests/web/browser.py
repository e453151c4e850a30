"""Debian's chromium, driven by selenium: with an empty profile, and without a network of its own."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

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
