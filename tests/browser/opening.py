"""Helpers of browser tests: opening a page, and reading what it shows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import BrowserContext, FloatRect, Locator, Page

from pipelines.outputs.page import save_page
from pipelines.scenes import SceneData
from tests import pages, videos
from tests.running import soon

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

VARIABLE = [i / 24 if i < 60 else 2.5 + (i - 60) / 7 for i in range(120)]
"""Times of the frames of a video with a variable frame rate."""


@dataclass(frozen=True)
class Made:
    """A page's file with what it was made of."""

    path: Path
    scenes: SceneData
    video: Path


@dataclass
class Opened:
    """An open page, with its console errors and its requests."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    failed: list[tuple[str, str | None]] = field(default_factory=list)


def new_tab(window: BrowserContext) -> Page:
    """Open a tab and show another file in it, as Chromium under load may not keep what a tab's first file stores."""
    page = window.new_page()
    page.goto(Path(__file__).with_name("first.html").as_uri())
    return page


@contextmanager
def opened(window: BrowserContext, address: str) -> Iterator[Opened]:
    """Open a page in a new tab, and at the end check that it reported no errors."""
    page = new_tab(window)
    page.set_default_timeout(30_000)
    seen = Opened(page)
    page.on("console", lambda message: seen.complaints.append(message.text))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("requestfailed", lambda request: seen.failed.append((request.url, request.failure)))
    go(page, address)
    yield seen
    assert seen.complaints == []


def go(page: Page, address: str) -> Page:
    page.goto(address)
    return laid_out(page)


def reopened(page: Page) -> Page:
    page.reload()
    return laid_out(page)


def laid_out(page: Page) -> Page:
    page.wait_for_selector(".scene", state="attached")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page


@contextmanager
def opened_page(
    window: BrowserContext, folder: Path, scenes: SceneData, *arguments: Any, **options: Any
) -> Iterator[Opened]:
    """The page of some scenes, saved as `save_page` does, and opened."""
    save_page(folder / "page.html", scenes, *arguments, **options)
    with opened(window, (folder / "page.html").as_uri()) as seen:
        yield seen


@contextmanager
def opened_video(window: BrowserContext, folder: Path, *rendering: Any) -> Iterator[tuple[SceneData, Page]]:
    """The page of a video, drawn as `pages.rendered` does, once the player has its first frame."""
    scenes, images = pages.rendered(folder / "video.mp4", *rendering)
    with opened_page(window, folder, scenes, images, folder / "video.mp4") as seen:
        yield scenes, ready(seen.page)


def resized(page: Page, width: int, height: int = 900) -> Page:
    """The page in a window of another size, once it is laid out."""
    page.set_viewport_size({"width": width, "height": height})
    return laid_out(page)


def box_of(part: Locator) -> FloatRect:
    box = part.bounding_box()
    assert box is not None
    return box


def ready(page: Page) -> Page:
    page.wait_for_function("() => document.getElementById('video').readyState >= 2")
    return page


def video_time(page: Page) -> float:
    page.wait_for_function("() => !document.getElementById('video').seeking")
    return float(page.evaluate("document.getElementById('video').currentTime"))


def shows_frame(page: Page, frame: int, selector: str = "#video") -> bool:
    """Whether a frame is shown within some seconds, by the number that is painted into it."""
    page.evaluate("document.getElementById('video').controls = false")  # they would cover the number

    def is_shown() -> bool:
        image = Image.open(BytesIO(page.locator(selector).screenshot())).convert("RGB")
        return videos.number_of(np.asarray(image)) == frame

    return soon(is_shown, 10)


def ends_shown(page: Page) -> list[int]:
    """The last shots of the scenes that the list shows, from 0."""
    numbers = "all => all.map(one => one.textContent)"
    return [int(number) - 1 for number in page.eval_on_selector_all(".shot:last-child .caption b", numbers)]


def slide(page: Page, threshold: float) -> None:
    """Move the slider as a user does, with its events."""
    page.locator("#threshold").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input'));"
        " slider.dispatchEvent(new Event('change')); }",
        threshold,
    )


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def tile(page: Page, shot: int) -> Locator:
    return page.locator(".shot .frame").nth(shot)


def saved(page: Page, folder: Path) -> Path:
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "scenes.json"
    download.value.save_as(folder / "scenes.json")
    return folder / "scenes.json"


def asks_before_closing(page: Page) -> bool:
    """Whether the page asks when a person leaves it, who then stays."""
    with page.expect_event("dialog") as dialog:
        page.once("dialog", lambda shown: shown.dismiss())
        page.evaluate("void setTimeout(() => location.reload())")
    return dialog.value.type == "beforeunload"


def faults(page: Page) -> list[str]:
    """What axe finds wrong for people with assistive technology, in light and in dark colors."""
    faults = []
    rules = {"rules": {"label-content-name-mismatch": {"enabled": True}}}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for rule in Axe().run(page, options=rules).response["violations"]:
            faults += [f"{rule['id']}: {node['target']} {node['failureSummary']}" for node in rule["nodes"]]
    return faults


TARGETS = """
() => [...document.querySelectorAll("button, input, select, summary, label:has(input)")]
    .filter((one) => one.checkVisibility({ contentVisibilityAuto: true, opacityProperty: true }))
    .filter((one) => !one.matches("label input, [type=file]") && Math.min(one.offsetWidth, one.offsetHeight) < 40)
    .map((one) => [one.outerHTML.slice(0, 60), one.offsetWidth, one.offsetHeight])
"""
"""Controls that fingers cannot hit, as script."""
