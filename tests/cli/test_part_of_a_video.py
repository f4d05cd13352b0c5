"""Commands on a part of a video, and on scenes without the short ones."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import opentimelineio
import pytest

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.outputs.exports import FORMATS
from pipelines.stages.regroup import regroup
from pipelines.stores.keyframes import read_keyframes
from tests.command import Bassl
from tests.outputs.exporting import scene_list
from tests.scenes_schema import SCHEMA


def read(path: str) -> dict[str, Any]:
    return json.loads(Path(path).read_text())  # type: ignore[no-any-return]


def test_predict_of_a_part_keeps_the_times_of_the_whole_video(bassl: Bassl, video: Path, model: Path) -> None:
    predict = ("predict", video, "--model", model, "--scenes", 2, "-q")
    assert bassl(*predict, "--start", "0.5", "--end", "00:00:04.750", "-o", "part.json", "--report")[0] == 0
    part = read("part.json")
    jsonschema.validate(part, SCHEMA)
    shots = [(shot["start_frame"], shot["end_frame"]) for shot in part["shots"]]
    assert shots == [(12, 30), (30, 61), (61, 90), (90, 114)]
    assert (part["shots"][0]["start"], part["shots"][-1]["end"]) == (0.5, 4.75)
    assert (part["settings"]["start"], part["settings"]["end"], part["video"]["id"]) == (0.5, 4.75, "video")
    assert part["video"]["fingerprint"] == read_scene_list(Path("part.json")).video.fingerprint
    assert bassl(*predict, "--start", "0.5s", "--duration", "4.25", "-o", "same.json")[0] == 0
    assert read("same.json")["shots"] == part["shots"]
    for name in ("edl", "otio"):
        assert bassl("export", "part.json", "--to", name, "-q")[0] == 0
    clip = Path("part.edl").read_text().splitlines()[3].split()[4:]
    assert (clip[0], clip[2]) == ("00:00:00:12", "00:00:00:00")
    track = opentimelineio.adapters.read_from_file("part.otio").tracks[0]
    assert track[0].source_range.start_time.value == 12
    assert bassl("report", "part.json", "-o", "again.html", "-q") == (0, "", "")
    assert bassl("save-images", "part.json", "-n", 1, "-q") == (0, "", "")
    assert bassl("regroup", "part.json", "--scenes", 3, "-o", "three.json", "-q")[0] == 0
    assert len(read("three.json")["scenes"]) == 3
    assert bassl("score", "part.json", "part.json", "-q")[0] == 0


def test_only_the_predicted_part_is_scored(bassl: Bassl, video: Path, model: Path) -> None:
    predict = ("predict", video, "--model", model, "-q", "-t", "0.0001")
    assert bassl(*predict, "--start", "0.5", "--end", "4.75", "-o", "part.json")[0] == 0
    ends = ["0.3", *(str(scene["end"]) for scene in read("part.json")["scenes"][:-1]), "4.9", "5"]
    rows = [f"{start},{end}" for start, end in pairwise(["0", *ends])]
    Path("truth.csv").write_text("\n".join(["start,end", *rows]))
    code, _, err = bassl("score", "part.json", "truth.csv", "--table", "score.json", "--tolerance", "0.1")
    assert (code, "only the part from 00:00:00.500 to 00:00:04.750 is scored" in err) == (0, True)
    scored = read("score.json")
    assert scored["matching"]["truth"]["part"] == [0.5, 4.75]
    assert (scored["scene_ends"], scored["metrics"]["f1"]["pooled"]) == (len(ends) - 3, 1.0)


def test_keyframes_of_a_part_equal_those_of_the_whole_video(bassl: Bassl, video: Path) -> None:
    assert bassl("extract-keyframes", video, "-o", "whole", "-q")[0] == 0
    assert bassl("extract-keyframes", video, "-o", "part", "--start", "0:01", "--duration", "4", "-q")[0] == 0
    whole, part = (read_keyframes(Path(name) / "video.h5") for name in ("whole", "part"))
    assert part.frames.tolist() == [[24, 61], [61, 90], [90, 120]]
    assert part.seconds[1:].tolist() == whole.seconds[2:].tolist()
    assert part.keyframes[1:].tolist() == whole.keyframes[2:].tolist()
    assert (part.settings["start"], part.settings["end"]) == (1.0, 5.0)
    assert "1 kept" in bassl("extract-keyframes", video, "-o", "part", "--start", "1", "--end", "5")[2]
    code, _, err = bassl("extract-keyframes", video, "-o", "part")
    assert (code, "start 1.0 and not None, end 5.0 and not None" in err) == (1, True)
    assert bassl("build-index", "part", "-o", "index.h5", "-q")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--end 3 --duration 3", "not both"),
        ("--start 3 --end 2", "ends at 2 s"),
        ("--start 1:99", "--start must be seconds or a timecode"),
        ("--start 1:00", "has no frame after 60 s; the one before it ends at 5.000 s"),
        ("--start 1.01 --end 1.02", "no frame from 1.01 s to 1.02 s"),
        ("--start 4.99", "no frame after 4.99 s"),
        ("--drop-short", "--drop-short leaves out scenes that are shorter than --min-scene; use both"),
    ],
)
def test_an_unusable_part_is_one_line_and_writes_nothing(
    bassl: Bassl, video: Path, model: Path, arguments: str, words: str
) -> None:
    run = bassl("predict", video, "--model", model, *arguments.split())
    assert (run.code, run.out) == (2, "")
    (line,) = run.complaints
    assert words in line
    assert list(Path.cwd().iterdir()) == []


def test_drop_short_leaves_out_short_scenes(bassl: Bassl) -> None:
    """Scenes of 2, 1, 3 and 1 seconds."""
    scene_list([50, 25, 75, 25], path="video.mp4").save(Path("scenes.json"))
    assert bassl("regroup", "-t", "0.05", "--min-scene", "0:02", "--drop-short", "-o", "long.json", "-q")[0] == 0
    content = read("long.json")
    jsonschema.validate(content, SCHEMA)
    assert [(scene["start_frame"], scene["end_frame"]) for scene in content["scenes"]] == [(0, 50), (75, 150)]
    assert [scene["index"] for scene in content["scenes"]] == [0, 1]
    assert read_scene_list(Path("long.json")).settings["drop_short"] is True
    for name in FORMATS:
        assert bassl("export", "long.json", "--to", name, "-q")[0] == 0
    records = [line.split()[4:] for line in Path("long.edl").read_text().splitlines() if line.startswith("00")]
    assert records == [
        ["00:00:00:00", "00:00:02:00", "00:00:00:00", "00:00:02:00"],
        ["00:00:03:00", "00:00:06:00", "00:00:02:00", "00:00:05:00"],
    ]
    assert bassl("report", "long.json", "-q")[0] == 0
    assert bassl("score", "long.json", "long.json", "-q")[0] == 0
    again = regroup(Path("long.json"), threshold=0.05, min_scene=0.0)
    assert [(a.end_shot, b.start_shot) for a, b in pairwise(again.scenes)] == [(1, 1), (2, 2), (3, 3)]
    del content["settings"]["drop_short"]
    Path("gap.json").write_text(json.dumps(content))
    code, _, err = bassl("export", "gap.json", "--to", "csv")
    assert (code, "scene 1 starts at 75" in err) == (2, True)
