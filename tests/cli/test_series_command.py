"""`bassl predict --series`: intro, outro and recap of episodes, in results, exports and clips."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pipelines.outputs import images as shot_images
from pipelines.stages.predict import model as scene_model, series
from pipelines.video.images import RGBImage
from pipelines.video.shots import VideoProcess
from tests.command import Bassl
from tests.videos import images, write_video

RATE = 12
INTRO, OUTRO = 100, 200  # seeds


def write_episode(path: Path, parts: Sequence[tuple[int, int]]) -> None:
    """A video of parts: seconds and a seed of the pictures, a shot a second."""
    write_video(path, [picture for part in parts for picture in pictures(*part)], RATE)


def pictures(seconds: int, seed: int) -> list[RGBImage]:
    return list(images(seconds * RATE, range(RATE, seconds * RATE, RATE), seed=seed, numbered=False))


def write_as_another_broadcaster(path: Path) -> None:
    """An episode with black bars, a lower third over three seconds of the intro, and a cross-fade into it."""
    cold, intro, rest = pictures(4, 3), pictures(9, INTRO), [*pictures(19, 4), *pictures(9, OUTRO)]
    for index in range(4):
        weight = (index + 1) / 5
        intro[index] = (weight * intro[index] + (1 - weight) * cold[-1]).astype(np.uint8)
    for picture in (captioned := [picture.copy() for picture in intro[36:72]]):
        picture[76:88, 10:80] = 255
    shown = [*cold, *intro[:36], *captioned, *intro[72:], *rest]
    write_video(path, [np.pad(picture, ((20, 20), (0, 0), (0, 0))) for picture in shown], RATE)


@pytest.fixture
def season(bassl: Bassl) -> Path:
    folder = Path("season")
    folder.mkdir()
    write_episode(folder / "ep 1.mp4", [(2, 1), (9, INTRO), (20, 2), (9, OUTRO)])
    write_as_another_broadcaster(folder / "ep 2.mp4")
    return folder


def segments(path: str) -> dict[str, list[float]]:
    content = json.loads(Path(path).read_text())
    return {part["kind"]: [part["start"], part["end"]] for part in content.get("segments", [])}


def test_intro_and_outro_are_segments_at_which_scenes_end_and_what_kodi_skips(
    bassl: Bassl, season: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    for module in (scene_model, series, shot_images):
        monkeypatch.setattr(module, "VideoProcess", lambda *task: reads.append(task[0]) or VideoProcess(*task))
    options = ("--series", "--to", "kodi", "--report", "--overwrite", "--threshold", 0.99, "--model", model)
    run = bassl("predict", season, "-o", "out", *options)
    assert run.code == 0, run.err
    assert [path.name for path in reads] == ["ep 1.mp4", "ep 2.mp4"], "each once"
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "ep 1.scenes.html", "ep 1.scenes.json", "ep 1.scenes.kodi.edl",
        "ep 2.scenes.html", "ep 2.scenes.json", "ep 2.scenes.kodi.edl", "index.html", "series.h5",
    ]  # fmt: skip
    found = segments("out/ep 1.scenes.json"), segments("out/ep 2.scenes.json")
    assert found[0]["intro"] == pytest.approx([2, 11], abs=0.2)
    assert found[0]["outro"] == pytest.approx([31, 40], abs=0.2)
    assert found[1]["intro"] == pytest.approx([4, 13], abs=0.4)
    assert found[1]["outro"] == [32, 41], "at cuts"
    scenes = json.loads(Path("out/ep 1.scenes.json").read_text())["scenes"]
    assert [scene["start"] for scene in scenes] == pytest.approx([0, 2, 11, 31], abs=0.2)
    assert [scene.get("name") for scene in scenes] == [None, "Intro", None, "Outro"]
    skipped = [line.split() for line in Path("out/ep 2.scenes.kodi.edl").read_text().splitlines() if line[-1] == "3"]
    spans = [[f"{time:.3f}" for time in found[1][kind]] for kind in ("intro", "outro")]
    assert [line[:2] for line in skipped] == spans
    assert '"kind":"intro"' in Path("out/ep 2.scenes.html").read_text().replace(" ", "")


def test_a_series_in_results_that_are_there_keeps_corrections(bassl: Bassl, season: Path, model: Path) -> None:
    command = ("predict", season, "-o", "out", "--model", model, "--json")
    assert bassl(*command).code == 0
    path = Path("out/ep 1.scenes.json")
    content = json.loads(path.read_text())
    content["scenes"][0]["name"] = "The mine"
    shots = content["shots"][-12:]
    credits = {"kind": "end_credits", "start_frame": shots[0]["start_frame"], "end_frame": shots[-1]["end_frame"]}
    content["segments"] = [{**credits, "start": shots[0]["start"], "end": shots[-1]["end"]}]
    path.write_text(json.dumps(content))
    write_episode(season / "ep 3.mp4", [(3, 5), (9, INTRO), (21, 6), (9, OUTRO)])
    run = bassl(*command, "--series")
    assert run.code == 0, run.err
    assert [one["status"] for one in json.loads(run.out)] == ["kept", "kept", "done"]
    assert "The mine" in [scene.get("name") for scene in json.loads(path.read_text())["scenes"]]
    found = segments("out/ep 1.scenes.json")
    assert sorted(found) == ["intro", "outro"], "in place of the credits that meet it"
    assert found["intro"] == [2, 11]
    assert segments("out/ep 3.scenes.json")["intro"] == pytest.approx([3, 12], abs=0.2)


def test_videos_that_share_nothing_are_named_in_one_line(bassl: Bassl, model: Path) -> None:
    Path("films").mkdir()
    write_episode(Path("films/a.mp4"), [(20, 1)])
    run = bassl("predict", "films", "-o", "out", "--series", "--model", model)
    assert run.code == 0
    assert "no two of the videos share an intro or outro of 8 seconds" in run.err


def test_parts_of_videos_are_not_compared(bassl: Bassl, model: Path) -> None:
    write_episode(Path("a.mp4"), [(2, 1)])
    run = bassl("predict", "a.mp4", "-o", "out", "--series", "--model", model, "--start", 1)
    assert (run.code, run.err) == (
        2,
        "bassl: --series compares whole videos; leave --start, --end and --duration out\n",
    )


def test_a_damaged_store_is_named_before_any_video_is_read(bassl: Bassl, season: Path, model: Path) -> None:
    Path("out").mkdir()
    Path("out/series.h5").write_bytes(b"other")
    run = bassl("predict", season, "-o", "out", "--series", "--model", model)
    assert run.refusal.startswith("bassl: out/series.h5: is not a file of bassl, or is damaged; remove it")
    assert [path.name for path in Path("out").iterdir()] == ["series.h5"]
