"""The page, and the page of many videos, as files: self-contained, safe with any names, and of limited size.

What it does in a browser stands in `tests/browser/test_page_in_chromium.py`.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.outputs.images import BUDGET, page_images
from pipelines.outputs.page import save_index, save_page, shows
from pipelines.progress import Status, VideoResult
from tests import pages
from tests.pages import HOSTILE, Elements


def made(path: Path, *given: Any, **options: Any) -> Elements:
    save_page(path, *given, **options)
    return Elements(path.read_text("utf-8"))


def test_the_page_fetches_nothing_and_its_policy_allows_only_its_own_script_and_style(tmp_path: Path) -> None:
    elements = made(tmp_path / "page.html", pages.invented(6), pages.noise(6), tmp_path / "video.mp4")
    addresses = [value for _, given in elements.found for name, value in given.items() if name in ("src", "href")]
    assert addresses == ["data:,"]
    assert not {tag for tag, _ in elements.found} & {"iframe", "object", "embed", "base"}
    assert "url(" not in elements.texts["style"]
    assert "@import" not in elements.texts["style"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", elements.texts["script"])
    (policy,) = [given["content"] or "" for _, given in elements.found if given.get("http-equiv")]
    hashes = [b64encode(sha256(elements.texts[kind].encode()).digest()).decode() for kind in ("style", "script")]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; ")
    assert "http" not in policy


def test_names_are_shown_as_text_only(tmp_path: Path) -> None:
    plain = pages.invented(6, name=HOSTILE.replace("/", "\\"))
    first, *others = plain.scenes
    settings = {**plain.settings, HOSTILE: [HOSTILE]}
    scenes = replace(plain, settings=settings, scenes=(replace(first, name=HOSTILE), *others))
    elements = made(tmp_path / "page.html", scenes, pages.noise(6), save_as=HOSTILE.replace("/", ""))
    harmless = made(tmp_path / "2.html", pages.invented(6), pages.noise(6))
    tags, harmless_tags = ([tag for tag, _ in page.found] for page in (elements, harmless))
    assert tags.count("div") == harmless_tags.count("div") + 1, "one more setting"
    assert tags.count("img") == harmless_tags.count("img")
    assert not any(name.startswith("on") for _, given in elements.found for name in given)
    data = json.loads(elements.texts["data"])
    assert data["file"] == json.loads(json.dumps(scenes.to_dict()))


def test_the_address_of_the_video_is_relative_to_the_page(tmp_path: Path) -> None:
    video = tmp_path / "videos" / "a: b #1 50%.mp4"
    elements = made(tmp_path / "pages" / "page.html", pages.invented(3), video=video)
    data = json.loads(elements.texts["data"])
    assert data["video"]["source"] == "./../videos/a%3A%20b%20%231%2050%25.mp4"


def test_images_are_in_the_order_of_the_shots(tmp_path: Path) -> None:
    given = pages.noise(5)
    elements = made(tmp_path / "page.html", pages.invented(5), given)
    data = json.loads(elements.texts["data"])
    assert data["images"] == {"type": "image/webp", "width": 64, "height": 36, "sides": []}
    for image, encoded in zip(given, elements.texts["images"].split("\n"), strict=True):
        before, after = (Image.open(BytesIO(content)).convert("RGB") for content in (image, b64decode(encoded)))
        assert after.size == (64, 36)
        differences = [abs(a - b) for a, b in zip(before.tobytes(), after.tobytes(), strict=True)]
        assert sum(differences) / len(differences) < 40  # images of other noise are 64 apart on average


def test_pages_with_more_shots_have_smaller_images() -> None:
    given = pages.noise(8, 320, 180)
    fine, small = page_images(given), page_images(given, budget=8 * 20_000)
    assert (fine.width, fine.height) == (320, 180)
    assert small.width < 320
    assert sum(map(len, small.encoded)) <= 8 * 20_000
    assert small.height == round(small.width * 180 / 320)
    (tall,) = pages.noise(1, 30, 200)
    assert (page_images([tall]).width, page_images([tall]).height) == (30, 60)
    # Three thousand shots of noise, the worst there is, fit at a width of 96 or more.
    assert 3000 * len(page_images(given, budget=8 * BUDGET // 3000).encoded[0]) < 22e6


# --- the page of many videos ----------------------------------------------------------------------------------------


def result(name: str = "one", status: Status = "done", **fields: Any) -> tuple[Path, VideoResult]:
    """A page beside the index, and the result that it shows."""
    facts: dict[str, Any] = {"scenes": 6, "shots": 40, "duration": 3661.5} | fields
    return Path(f"{name}.scenes.html"), VideoResult(name, Path(f"{name}.mp4"), Path(f"{name}.json"), status, **facts)


def index(folder: Path, *results: tuple[Path, VideoResult]) -> Elements:
    save_index(folder / "index.html", [(folder / page, one) for page, one in results])
    return Elements((folder / "index.html").read_text("utf-8"))


def test_the_page_of_many_videos_links_their_pages_and_names_those_that_failed(tmp_path: Path) -> None:
    failed = result("<bad>", "failed", error="<bad>.mp4: is empty")
    elements = index(tmp_path, result(), result("two: #2", scenes=1, duration=1e6, corrected=True), failed)
    assert [item["href"] for tag, item in elements.found if tag == "a"] == [
        "./one.scenes.html",
        "./two%3A%20%232.scenes.html",
    ]
    assert "<bad>.mp4: is empty" in elements.texts["li"]
    for facts in ("6 scenes · 01:01:01", "1 scene · 277:46:40 · corrected by hand"):
        assert facts in elements.texts["span"]
    assert "7 scenes · 278:47:41 · 1 corrected · 1 failed" in " ".join(elements.texts["p"].split())


def test_names_on_the_page_of_videos_are_shown_as_text_only_and_nothing_is_fetched(tmp_path: Path) -> None:
    tags = []
    for name in (HOSTILE.replace("/", "\\").replace("\ud800", "\udc80"), "harmless"):
        elements = index(tmp_path, result(name), result(name, "failed", error=f"{name}: failed"))
        tags.append([tag for tag, _ in elements.found])
        assert not any(key.startswith("on") for _, attributes in elements.found for key in attributes)
        (policy,) = [attributes["content"] or "" for _, attributes in elements.found if attributes.get("http-equiv")]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert tags[0] == tags[1]
    assert "script" not in tags[0]


def test_a_page_is_known_to_show_its_scenes_wherever_the_video_is_and_no_others(tmp_path: Path) -> None:
    page, scenes = tmp_path / "page.html", pages.invented(6)
    assert not shows(page, scenes)
    save_page(page, scenes, pages.noise(6), Path("<" * 200 + ".mp4"))
    moved = replace(scenes.video, path=f"/elsewhere/{'&' * 250}.mp4")
    assert shows(page, replace(scenes, video=moved))
    scenes.save(tmp_path / "scenes.json")
    assert shows(page, read_scene_list(tmp_path / "scenes.json"))
    others = replace(scenes.scenes[0], name="Other"), *scenes.scenes[1:]
    assert not shows(page, replace(scenes, scenes=others))
    page.write_text("<p>My notes</p>")
    assert not shows(page, scenes)
