"""A headless Chromium for tests of pages, without a network, driven by selenium.

It is Debian's: `apt-get install chromium chromium-driver`. Tests that use it are skipped, with
that line, where it is missing.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--force-device-scale-factor=1", "--hide-scrollbars"),
    # Timers and drawing of a window that nobody sees run at full speed.
    *("--disable-background-timer-throttling", "--disable-renderer-backgrounding"),
    "--disable-backgrounding-occluded-windows",
)


def chromium_paths() -> tuple[str, str]:
    """Browser and driver; skips the test where they are missing."""
    pytest.importorskip("selenium", reason="needs selenium: pip install -e '.[dev]'")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs a browser: apt-get install chromium chromium-driver (as root)")
    return browser, driver


@contextmanager
def chromium(profile: Path, *, dark: bool = False, width: int = 1280) -> Iterator[Any]:
    """A browser with an empty profile.

    Args:
        profile (`Path`): A folder that does not exist yet.
        dark (`bool`): Whether pages see a user who prefers dark colours.
        width (`int`): Of the window, in pixels; below 500 a phone is emulated.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    browser, driver = chromium_paths()
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = webdriver.Chrome(options=options, service=Service(driver))
    try:
        window.set_script_timeout(90)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        if width < 500:
            window.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True},
            )
        yield window
    finally:
        window.quit()


def until(window: Any, script: str, *arguments: object, seconds: float = 90) -> Any:
    """Wait until a script returns something true, and return it.

    If it never does, the error shows the page: its address, its state and its console.
    """
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.support.ui import WebDriverWait

    try:
        return WebDriverWait(window, seconds, 0.02).until(
            lambda _: window.execute_script(script, *arguments)
        )
    except TimeoutException:
        state = window.execute_script(
            "return `${location.href} is ${document.readyState}, ${document.visibilityState}, `"
            " + `data-ready=${document.documentElement.dataset.ready}`"
        )
        console = window.get_log("browser")
        raise AssertionError(f"{seconds} s without {script}; {state}; console {console}") from None


def enter_frame(window: Any) -> None:
    """Switch to the first frame once its own document is complete, not the empty one before it."""
    own = (
        "const frame = document.querySelector('iframe'), inner = frame?.contentDocument;"
        "return inner?.readyState === 'complete' && inner.URL !== 'about:blank' && frame"
    )
    window.switch_to.frame(until(window, own))


def drawn(window: Any) -> None:
    """Wait until what was asked for is drawn: the second frame from now starts after the first."""
    window.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
    )


def ready(window: Any) -> None:
    """Wait until a report has all of its texts."""
    until(window, "return document.documentElement.dataset.ready === 'texts'")
