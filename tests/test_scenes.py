"""scenes.json: its content, validity and atomic writing."""

import json
import math
import re
from contextlib import nullcontext
from dataclasses import MISSING, fields, replace
from functools import reduce
from itertools import pairwise
from operator import getitem
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies

from pipelines import datasets
from pipelines.datasets.scenes_json import read_scene_list, with_video
from pipelines.errors import BasslError
from pipelines.files import MOST_RESULT_BYTES
from pipelines.scenes import (
    MAX_POSITION,
    MOST_SHOTS,
    SEGMENTS,
    Line,
    Scene,
    SceneData,
    Segment,
    Shot,
    Transition,
    VideoFacts,
    group_shots,
    timecode,
)
from pipelines.video.inputs import fingerprint, safe_id
from tests.datasets.annotation_files import ABSENT, changed
from tests.scenes_schema import SCHEMA

VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SCORES = (0.1, 0.8, 0.3, 0.6, 0.9)


def shots_of(scores: tuple[float, ...] = SCORES) -> tuple[Shot, ...]:
    """Shots of two seconds at 25 frames per second."""
    return tuple(Shot(i, 50 * i, 50 * i + 50, 2.0 * i, 2.0 * i + 2, score) for i, score in enumerate(scores))


def scene_list(ends: tuple[int, ...] = (1, 3, 4)) -> SceneData:
    facts = VideoFacts("movie.mp4", 640, 360, 10.0, 250, 25.0)
    return SceneData(facts, {"bassl": "0.1.0"}, shots_of(), group_shots(shots_of(), ends))


def test_scenes_cover_the_video_without_gap() -> None:
    scenes = group_shots(shots_of(), (1, 3, 4))
    assert [(scene.start_shot, scene.end_shot) for scene in scenes] == [(0, 2), (2, 4), (4, 5)]
    assert [(scene.start_frame, scene.end_frame) for scene in scenes] == [(0, 100), (100, 200), (200, 250)]
    assert [(scene.start, scene.end) for scene in scenes] == [(0.0, 4.0), (4.0, 8.0), (8.0, 10.0)]
    assert [scene.end_timecode for scene in scenes] == ["00:00:04.000", "00:00:08.000", "00:00:10.000"]


def test_the_confidence_of_a_scene_is_the_lower_score_of_its_boundaries() -> None:
    confidences = [scene.confidence for scene in group_shots(shots_of(), (1, 3, 4))]
    # Scene 0: no division after shot 0 (0.9), an end after shot 1 (0.8). Scene 1: 0.8, 0.7, 0.6. Scene 2: 0.6 only,
    # because the video's own end is certain.
    assert confidences == pytest.approx([0.8, 0.6, 0.6])
    assert [scene.confidence for scene in group_shots(shots_of((0.2,)), (0,))] == [1.0], "the only scene of a video"
    pinned = [replace(shot, pinned=shot.index == 1) for shot in shots_of()]
    assert group_shots(pinned, (1, 4))[1].confidence == 1.0, "what a person decided is certain"


def test_each_scene_has_the_lines_that_begin_in_it_and_none_is_lost(tmp_path: Path) -> None:
    lines = tuple(Line(start, start + 3, f"{start} s") for start in (0.0, 3.9, 4.0, 8.5))
    spoken = replace(scene_list(), lines=lines)
    assert [spoken.lines_of(scene) for scene in spoken.scenes] == [lines[:2], lines[2:3], lines[3:]]
    dropped = replace(spoken, scenes=(replace(spoken.scenes[1], index=0),), settings={"drop_short": True})
    dropped.save(tmp_path / "scenes.json")
    content = json.loads((tmp_path / "scenes.json").read_text())
    assert content["scenes"][0]["lines"] == [{"start": 4.0, "end": 7.0, "text": "4.0 s"}]
    assert [line["start"] for line in content["lines"]] == [0.0, 3.9, 8.5]
    assert not {"segments", "name"} & {*content, *content["scenes"][0]}, "what there is not"
    assert read_scene_list(tmp_path / "scenes.json") == dropped


def test_a_given_video_replaces_the_one_named_in_the_scene_list(tmp_path: Path) -> None:
    scene_list().save(tmp_path / "scenes.json")
    video = tmp_path / "moved.mp4"
    video.write_bytes(b"frames")
    facts = with_video(read_scene_list(tmp_path / "scenes.json"), video).video
    assert facts == replace(scene_list().video, path=str(video), fingerprint=fingerprint(video))


OBJECTS = {
    VideoFacts: SCHEMA["properties"]["video"],
    Shot: SCHEMA["properties"]["shots"]["items"],
    Transition: SCHEMA["properties"]["shots"]["items"]["properties"]["transition"],
    Scene: SCHEMA["properties"]["scenes"]["items"],
    Segment: SCHEMA["properties"]["segments"]["items"],
    Line: SCHEMA["$defs"]["lines"]["items"],
}
PLACES: dict[type, tuple[str | int, ...]] = {
    VideoFacts: ("video",),
    Shot: ("shots", 1),
    Transition: ("shots", 0, "transition"),
    Scene: ("scenes", 1),
    Segment: ("segments", 0),
    Line: ("scenes", 0, "lines", 0),
}
FIELDS = {
    (*PLACES[kind], name): schema
    for kind, parts in OBJECTS.items()
    for name, schema in parts["properties"].items()
    if schema.get("type") in ("boolean", "integer", "number", "string") and "pattern" not in schema
}
CONTRADICTION = "not where|its (shots|scenes)|starts (at|before)|the indexes|ends (at|before)|is empty"


def complete() -> Any:
    """The content of a file with all objects."""
    first, *shots = shots_of()
    shots = [replace(first, transition=Transition("cut", 50, 50, 2.0, 2.0)), *shots]
    lines, segments = (Line(1.0, 2.0, "Hello"),), (Segment("black", 50, 75, 2.0, 3.0),)
    return replace(scene_list(), shots=tuple(shots), lines=lines, segments=segments).to_dict()


@pytest.mark.parametrize("keys", FIELDS, ids=lambda keys: ".".join(map(str, keys)))
def test_the_reader_and_the_schema_have_the_same_limits(tmp_path: Path, keys: tuple[Any, ...]) -> None:
    schema = FIELDS[keys]
    values: list[object] = [None, [], {}, "", "text", True, False, 0.5, -1]
    for limit in ("minimum", "maximum", "exclusiveMinimum"):
        if limit in schema:
            step = 1 if abs(schema[limit]) < 2**53 else 2**12  # as floats can be told apart
            values += [schema[limit] - step, schema[limit], schema[limit] + step]
    for value in values:
        content, message = changed(complete(), keys, value), ""
        path = tmp_path / "scenes.json"
        path.write_text(json.dumps(content))
        try:
            read_scene_list(path)
        except BasslError as error:
            message = str(error).removeprefix(f"{path}: ")
        assert "\n" not in message
        if VALIDATOR.is_valid(content):  # other fields may contradict it
            assert not message or re.search(CONTRADICTION, message), value
        else:
            assert message or value is None, value  # null counts as missing, where a field may be


def test_an_integer_may_be_written_with_a_decimal_point(tmp_path: Path) -> None:
    content = scene_list().to_dict()
    for keys in (("version",), ("video", "width"), ("shots", 0, "start_frame"), ("scenes", 2, "end_shot")):
        content = changed(content, keys, float(reduce(getitem, keys, content)))
    VALIDATOR.validate(content)
    (tmp_path / "scenes.json").write_text(json.dumps(content))
    read = read_scene_list(tmp_path / "scenes.json")
    assert read == scene_list()
    assert isinstance(read.shots[0].start_frame, int)


SEGMENT = {"kind": "black", "start_frame": 50, "end_frame": 75, "start": 2.0, "end": 3.0}


@pytest.mark.parametrize(
    ("keys", "value", "words", "by_schema"),
    [
        (("schema",), "other", "is not a scenes.json", True),
        (("settings",), [], "Expected object, got array - at \\$.settings", True),
        (("settings",), ABSENT, None, True),
        (("more",), 1, None, True),
        (("shots", 0, "setting"), 3, None, True),  # of an earlier version
        (("segments",), [{**SEGMENT, "kind": "chase"}], "'chase' is not black or silence", True),
        (("segments",), [{**SEGMENT, "end_frame": 50}], "segment 0 is empty", False),
        (("video", "width"), None, "Expected int, got null - at \\$.video.width", True),
        (("video", "frames"), 0, "0 is not from 1 to", True),
        (("shots", 1, "end_frame"), 10**30, "is not from 1 to 2,147,483,647 - at \\$.shots\\[1\\].end_frame", True),
        (("shots",), [], "lists no shots", True),
        (("shots", 0, "transition"), {**SEGMENT, "kind": "explosion"}, "'explosion' is not cut or", True),
        (("scenes", 0, "start_timecode"), "0:00", None, True),
        (("scenes", 1, "name"), "", "'' is not a text - at \\$.scenes\\[1\\].name", True),
        (("scenes", 1, "lines"), ["Hello"], "got str - at \\$.scenes\\[1\\].lines\\[0\\]", True),
        (("lines",), [{"start": 1, "end": 0, "text": "Hello"}], "line 0 ends at 0", False),
    ],
)
def test_impossible_values_are_refused_with_their_place(
    tmp_path: Path, keys: tuple[Any, ...], value: object, words: str | None, by_schema: bool
) -> None:
    content = changed(scene_list().to_dict(), keys, value)
    (tmp_path / "scenes.json").write_text(json.dumps(content))
    assert VALIDATOR.is_valid(content) != by_schema
    with pytest.raises(BasslError, match=words) if words else nullcontext():
        read_scene_list(tmp_path / "scenes.json")


def test_timecodes_that_round_up_carry_to_the_next_unit() -> None:
    seconds = (0.0, 59.9994, 59.9996, 3599.9999, 3723.456, 360_000.0)
    shown = "00:00:00.000 00:00:59.999 00:01:00.000 01:00:00.000 01:02:03.456 100:00:00.000"
    assert [timecode(second) for second in seconds] == shown.split()


def test_nan_is_never_written(tmp_path: Path) -> None:
    broken = replace(scene_list(), settings={"threshold": float("nan")})
    with pytest.raises(ValueError):
        broken.save(tmp_path / "scenes.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", OBJECTS, ids=lambda kind: kind.__name__)
def test_the_schema_has_the_fields_of_the_classes(kind: Any) -> None:
    others = {VideoFacts: ["relative_path"], Scene: ["lines"]}.get(kind, [])  # which the reader puts elsewhere
    assert [field.name for field in fields(kind)] + others == list(OBJECTS[kind]["properties"])
    assert [field.name for field in fields(kind) if field.default is MISSING] == OBJECTS[kind]["required"]


def limits(kind: type, name: str) -> strategies.SearchStrategy[Any]:
    """Draw values of a field of scenes.json, at its limits and within."""
    schema = OBJECTS[kind]["properties"][name]
    least = schema.get("minimum", math.nextafter(schema.get("exclusiveMinimum", 0), math.inf))
    most = schema.get("maximum")
    values = {
        "boolean": strategies.booleans(),
        "string": strategies.sampled_from(schema["enum"]) if "enum" in schema else strategies.text(min_size=1),
        "integer": strategies.sampled_from([least, most]),
        "number": strategies.sampled_from([float(least), float(most or 0)]) | strategies.floats(least, most),
    }[schema["type"]]
    return values if name in OBJECTS[kind]["required"] else values | strategies.none()


def facts() -> strategies.SearchStrategy[VideoFacts]:
    limited = {field.name: limits(VideoFacts, field.name) for field in fields(VideoFacts)}
    fixed = {
        "path": "映画 \udcff.mp4",
        "frames": MAX_POSITION,
        "duration": float(MAX_POSITION),
        "fingerprint": None,
    }
    ids = strategies.none() | strategies.text(min_size=1, max_size=300).map(safe_id)  # which makes all of them
    return strategies.builds(
        VideoFacts, **(limited | {name: strategies.just(x) for name, x in fixed.items()} | {"id": ids})
    )


@given(facts(), strategies.data())
@settings(max_examples=30)
def test_what_is_written_at_any_limit_is_read_again(video: VideoFacts, data: strategies.DataObject) -> None:
    starts = data.draw(strategies.lists(strategies.integers(1, MAX_POSITION - 1), max_size=4, unique=True).map(sorted))
    name, named_by = limits(Scene, "name"), limits(Scene, "named_by")
    score, pinned = limits(Shot, "score"), limits(Shot, "pinned")
    shots = tuple(
        Shot(i, start, end, float(start), float(end), data.draw(score), pinned=data.draw(pinned))
        for i, (start, end) in enumerate(pairwise([0, *starts, MAX_POSITION]))
    )
    scenes = tuple(
        replace(scene, name=text, named_by=text and data.draw(named_by))
        for scene in group_shots(shots, range(len(shots)))
        for text in [data.draw(name)]
    )
    end = float(MAX_POSITION)
    lines = tuple(Line(end, end, text) for text in data.draw(strategies.lists(strategies.text(min_size=1))))
    segments = tuple(Segment(kind, 0, MAX_POSITION, 0.0, end) for kind in SEGMENTS)
    written = SceneData(video, {"bassl": "0.1.0"}, shots, scenes, lines, segments)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.scenes.json"
        written.save(path)
        VALIDATOR.validate(json.loads(path.read_text()))
        assert read_scene_list(path) == written


def test_a_video_with_the_most_shots_all_of_them_named_scenes_is_written_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, length = 1000, 20_000 * MOST_SHOTS // 1000  # a hundredth of the most, with as large numbers
    monkeypatch.setattr("pipelines.datasets.MOST_VALUES", datasets.MOST_VALUES // 100)
    for module in ("pipelines.scenes", "pipelines.datasets.scenes_json"):
        monkeypatch.setattr(f"{module}.MOST_RESULT_BYTES", MOST_RESULT_BYTES // 100)
    transition = Transition("dissolve", 10**9, 10**9 + 1, 10**9 / 7, 10**9 / 6)
    shots = tuple(
        Shot(i, length * i, length * (i + 1), length * i / 3, length * (i + 1) / 3, 1 / 3, transition, pinned=False)
        for i in range(count)
    )
    video = replace(scene_list().video, frames=length * count, duration=length * count / 3)
    scenes = tuple(replace(scene, name="A name of a scene" * 3) for scene in group_shots(shots, range(count)))
    lines = tuple(Line(shot.start, shot.end, "What is said in this shot") for shot in shots)
    written = SceneData(video, {}, shots, scenes, lines)
    written.save(tmp_path / "scenes.json")
    assert read_scene_list(tmp_path / "scenes.json") == written


def test_a_result_that_is_too_large_to_be_read_is_not_written_and_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene_list().save(tmp_path / "scenes.json")
    before = (tmp_path / "scenes.json").read_bytes()
    monkeypatch.setattr("pipelines.scenes.MOST_RESULT_BYTES", len(before) - 1)
    with pytest.raises(BasslError, match=r"scenes\.json: would have 0 MB, and 0 MB are the most"):
        scene_list().save(tmp_path / "scenes.json")
    assert (tmp_path / "scenes.json").read_bytes() == before
