"""Pages open in a real browser: Debian's `chromium`, or another Chromium on the path; tests are skipped without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from pipelines.outputs.page import save_page
from tests import pages
from tests.browser.opening import CHROMIUM, Made, opened


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs a browser: apt-get install chromium")
    # Without a sandbox, because tests run as root; the rest keeps it from calling home.
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic")
    # With RenderDocument, Chromium under load does not keep what one file in fifty stores.
    stable = ("--disable-features=RenderDocument",)
    expect.set_options(timeout=30_000)  # on a busy machine
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--no-first-run", "--disable-gpu", *quiet, *stable]
        )
        yield chromium
        chromium.close()


@contextmanager
def new_window(browser: Browser) -> Iterator[BrowserContext]:
    # Without motion, because a button that fades in has too little contrast for a moment.
    window = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    yield window
    window.close()


@pytest.fixture
def window(browser: Browser) -> Iterator[BrowserContext]:
    """Open a window for one test only, because what a test stores or clears last may reach the next page late."""
    with new_window(browser) as window:
        yield window


@pytest.fixture(scope="module")
def window_of_file(browser: Browser) -> Iterator[BrowserContext]:
    """Open one window for all tests of a file that store nothing."""
    with new_window(browser) as window:
        yield window


@pytest.fixture(scope="package")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A video of eight shots, whose scores are pages.SCORES and whose scenes end with shots 1, 3, 4, 6 and 7, with its
    page."""
    folder = tmp_path_factory.mktemp("page")
    video = folder / "video #1 (50%).mp4"
    scenes, images = pages.rendered(video)
    save_page(folder / "page.html", scenes, images, video)
    return Made(folder / "page.html", scenes, video)


@pytest.fixture
def view(window: BrowserContext, made: Made) -> Iterator[Page]:
    """The page; afterwards checks that it requested only itself and its video."""
    with opened(window, made.path.as_uri()) as seen:
        yield seen.page
    requests = {unquote(url) for url in seen.requests if not url.startswith(("data:", "blob:"))}
    assert requests == {unquote(file.as_uri()) for file in (made.path, made.video)}
