"""`bassl report` and `bassl predict --report`: the source of images, true scene ends, and errors."""

from __future__ import annotations

import json
import shutil
import sys
from base64 import b64decode
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.errors import BasslError
from pipelines.scenes import SceneData
from pipelines.stages.predict import predict_videos
from pipelines.stages.report import report, report_videos
from pipelines.video.inputs import video_at
from tests import pages, videos
from tests.command import Bassl
from tests.pages import Elements


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SceneData]:
    """Return a folder with a video and its scenes.json."""
    folder = tmp_path_factory.mktemp("report")
    scenes, _ = pages.rendered(folder / "video.mp4")
    replace(scenes, video=replace(scenes.video, path="video.mp4")).save(folder / "scenes.json")
    return folder, scenes


@pytest.fixture
def place(made: tuple[Path, SceneData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of this test's own with the same files, which is the current one."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def data_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Elements(path.read_text()).texts["data"])
    return content


def images_of(path: Path) -> list[np.ndarray]:
    encoded = Elements(path.read_text()).texts["images"].split("\n")
    encoded = encoded[: len(data_of(path)["file"]["shots"])]  # first and last keyframes follow
    return [np.asarray(Image.open(BytesIO(b64decode(one))).convert("RGB")) for one in encoded]


def test_images_are_the_middle_frames_of_shots(place: Path, made: tuple[Path, SceneData]) -> None:
    result = report("scenes.json")
    assert (result.output, result.scenes, result.shots, result.warnings) == (Path("scenes.html"), 5, 8, ())
    assert result.notes == ()
    middles = [(shot.start_frame + shot.end_frame) // 2 for shot in made[1].shots]
    assert [videos.number_of(image) for image in images_of(result.output)] == middles
    assert data_of(result.output)["video"] == {"name": "video.mp4", "source": "./video.mp4", "first": 0.0}


def test_without_a_video_the_page_has_no_images(bassl: Bassl, place: Path) -> None:
    Path("video.mp4").unlink()
    run = bassl("report", "scenes.json")
    assert (run.code, run.out) == (0, "")
    missing = "video.mp4: the video was not found, or was changed since; name it with --video"
    assert f"warning: {missing}; a page without images" in run.err.splitlines()
    assert run.err.splitlines()[-1] == "5 scenes, 8 shots; wrote scenes.html"
    assert data_of(Path("scenes.html"))["images"] is None


def test_a_scenes_json_saved_by_the_page_finds_the_video_after_moving_the_folder(place: Path) -> None:
    report("scenes.json", output=Path("page.html"), video=Path("video.mp4"))
    moved = place.with_name("moved")
    shutil.copytree(place, moved)
    (moved / "saved.json").write_text(json.dumps(data_of(Path("page.html"))["file"]))
    Path("video.mp4").unlink()
    video = read_scene_list(moved / "saved.json").video
    assert video_at(Path(video.path), video) == moved / "video.mp4"


def test_scenes_from_stdin_have_a_page_with_images(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = Path("scenes.json").read_bytes()
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(content)))
    report("-", output=Path("piped.html"), video=Path("video.mp4"))
    report("scenes.json", output=Path("read.html"))
    assert data_of(place / "piped.html")["images"] == data_of(place / "read.html")["images"] is not None
    assert data_of(place / "piped.html")["save_as"] == "scenes.json"
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(content)))
    results = report_videos(["-", "video.json"], output=Path("pages"))
    assert [result.output for result in results] == [Path("pages/scenes.html"), Path("pages/video.html")]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"source": "gone.json"}, "gone.json: no such file; make it with: bassl predict VIDEO `output=gone.json`"),
        ({"video": "other.mp4"}, "other.mp4: .*119 frames.*these scenes.*120"),
        ({"video": "long.mp4"}, "long.mp4: has 10.0 s, but the scenes are of a video with"),
        ({"output": "scenes.json"}, "scenes.json: .*ends in .html"),
        ({"output": "video.mp4/page.html"}, "cannot create its folder"),
    ],
)
def test_unusable_input_is_one_line_and_writes_nothing(place: Path, wrong: dict[str, Any], words: str) -> None:
    videos.write_video(Path("other.mp4"), videos.images(119, pages.CUTS, 320, 180))
    videos.write_video(Path("long.mp4"), videos.images(240))
    before = set(place.rglob("*"))
    with pytest.raises((BasslError, ValueError), match=words) as caught:
        report(**{"source": "scenes.json"} | wrong)
    assert "\n" not in str(caught.value)
    assert set(place.rglob("*")) == before


def test_predict_makes_the_page_that_report_makes(bassl: Bassl, place: Path, model: Path) -> None:
    run = bassl("predict", "video.mp4", "--model", model, "-o", "made/one.json", "--report")
    assert run.code == 0
    assert run.err.splitlines()[-1].endswith("wrote made/one.json, made/one.html")
    page = Path("made/one.html")
    first, images = data_of(page), images_of(page)
    assert first["file"] == json.loads(Path("made/one.json").read_text())
    assert first["save_as"] == "one.json"
    report("made/one.json")
    assert data_of(page) == first
    assert np.array_equal(images_of(page), images)


def test_a_folder_of_videos_has_a_page_each_and_an_index_of_its_own_pages(place: Path, model: Path) -> None:
    shutil.copy("video.mp4", "video_2.mp4")
    Path("bad.mp4").write_bytes(b"no video")
    Path("out").mkdir()
    Path("out/bad.scenes.html").write_text("<p>The notes of another program</p>")

    def predict(**options: Any) -> list[str]:
        results = predict_videos([place], "out", model=model, pages=True, **options)
        assert linked(Path("out/index.html")) == ["./video.scenes.html", "./video_2.scenes.html"]
        return [result.status for result in results]

    assert predict() == ["failed", "done", "done"]
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "bad.scenes.html", "index.html", "video.scenes.html", "video.scenes.json", "video_2.scenes.html",
        "video_2.scenes.json",
    ]  # fmt: skip
    for lost in ("video_2.scenes.html", "index.html"):
        Path("out", lost).unlink()
    assert predict() == ["failed", "kept", "kept"]
    Path("out/video_2.scenes.json").unlink()
    assert predict(threshold=0.4) == ["failed", "regrouped", "done"]


def linked(index: Path) -> list[str | None]:
    """Return the pages that an index links, by the names of their videos."""
    return [
        names["href"] for tag, names in Elements(index.read_text()).found if tag == "a" and "aria-label" not in names
    ]


def test_several_files_get_pages_and_an_index_and_a_bad_file_fails_alone(bassl: Bassl, place: Path) -> None:
    Path("more").mkdir()
    shutil.copy("scenes.json", "more/second.json")
    shutil.copy("video.mp4", "more/video.mp4")
    Path("third.json").write_text("{}")
    run = bassl("report", "scenes.json", "more/second.json", "third.json")
    assert run.code == 1
    assert run.err.splitlines()[:3] == ["scenes.json: done", "second.json: done", "third.json: failed"]
    assert run.err.splitlines()[3].startswith("bassl: third.json: ")
    assert run.err.splitlines()[-1] == "2 done, 0 kept, 1 failed; index.html shows all pages"
    assert linked(Path("index.html")) == ["./scenes.html", "./more/second.html"]
    assert data_of(Path("more/second.html"))["video"]["name"] == "video.mp4"
    Path("video.mp4").unlink()  # images take time, and are not what this is about
    Path("more/video.mp4").unlink()
    run = bassl("report", "scenes.json", "more/second.json", "-o", "pages")
    assert run.code == 0
    assert {path.name for path in Path("pages").iterdir()} == {"index.html", "scenes.html", "second.html"}
    run = bassl("report", "third.json", "missing.json", "-o", "none")
    assert (run.code, run.err.splitlines()[-1]) == (1, "0 done, 0 kept, 2 failed")
    assert not Path("none/index.html").exists()


def test_pages_that_would_be_the_same_file_or_of_one_named_video_are_refused(place: Path) -> None:
    Path("more").mkdir()
    shutil.copy("scenes.json", "more/scenes.json")
    both = ["scenes.json", "more/scenes.json"]
    with pytest.raises(BasslError, match=r"more/scenes\.json and scenes\.json: have the same name"):
        report_videos(both, output="pages")
    with pytest.raises(BasslError, match=r"video\.mp4: is one video, but there are 2 results"):
        report_videos(both, video="video.mp4")
    assert not list(place.rglob("*.html"))
