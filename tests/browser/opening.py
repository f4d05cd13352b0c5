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
from playwright.sync_api import Browser, Locator, Page

from pipelines.outputs.page import save_page
from pipelines.scenes import SceneData
from tests import pages, videos

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

VARIABLE = [i / 24 if i < 60 else 2.5 + (i - 60) / 7 for i in range(120)]
"""Times of the frames of a video with a variable frame rate."""


@dataclass
class Made:
    """A page's file with what it was made of."""

    path: Path
    scenes: SceneData
    video: Path | None = None


@dataclass
class Opened:
    """An open page, with its console errors and its requests."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    failed: list[tuple[str, str | None]] = field(default_factory=list)


@contextmanager
def opened(browser: Browser, path: Path, **options: object) -> Iterator[Opened]:
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(30_000)
    seen = Opened(page)
    page.on("console", lambda message: seen.complaints.append(message.text))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("requestfailed", lambda request: seen.failed.append((request.url, request.failure)))
    page.goto(path.as_uri())
    page.wait_for_selector(".scene")
    yield seen
    context.close()


@contextmanager
def opened_page(browser: Browser, folder: Path, scenes: SceneData, *arguments: Any, **options: Any) -> Iterator[Opened]:
    """The page of some scenes, saved as `save_page` does, and opened."""
    save_page(folder / "page.html", scenes, *arguments, **options)
    with opened(browser, folder / "page.html") as seen:
        yield seen


@contextmanager
def opened_video(browser: Browser, folder: Path, *rendering: Any) -> Iterator[tuple[SceneData, Opened]]:
    """The page of a video, drawn as `pages.rendered` does, once the player has its first frame."""
    scenes, images = pages.rendered(folder / "video.mp4", *rendering)
    with opened_page(browser, folder, scenes, images, folder / "video.mp4") as seen:
        ready(seen.page)
        yield scenes, seen


def ready(page: Page) -> Page:
    page.wait_for_function("() => document.getElementById('video').readyState >= 2")
    return page


def video_time(page: Page) -> float:
    page.wait_for_function("() => !document.getElementById('video').seeking")
    return float(page.evaluate("document.getElementById('video').currentTime"))


def frame_shown(page: Page) -> int:
    """The number painted into the current frame of the player."""
    video_time(page)
    page.wait_for_timeout(60)
    page.evaluate("document.getElementById('video').controls = false")  # they would cover the number
    image = Image.open(BytesIO(page.locator("#video").screenshot())).convert("RGB")
    return videos.number_of(np.asarray(image))


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


def faults(page: Page) -> list[str]:
    """What axe finds wrong for people with assistive technology."""
    actual = Axe().run(page).response["violations"]
    return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in actual for node in one["nodes"]]


TARGETS = """
() => [...document.querySelectorAll("button, input, select, summary, label:has(input)")]
    .filter((one) => one.checkVisibility({ contentVisibilityAuto: true, opacityProperty: true }))
    .filter((one) => !one.matches("label input, [type=file]") && Math.min(one.offsetWidth, one.offsetHeight) < 40)
    .map((one) => [one.outerHTML.slice(0, 60), one.offsetWidth, one.offsetHeight])
"""
"""Controls that fingers cannot hit, as script."""
