"""JSON Lines for search: text, keyframes and vectors of scenes, and the programs of docs/search.md."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bassl import SceneList, export, predict, save_images
from pipelines.datasets.synthetic import SyntheticVideo
from pipelines.errors import BasslError
from tests.command import Bassl
from tests.predicting import predict_file

SUBTITLES = "1\n00:00:00,500 --> 00:00:01,500\nThe harbor is cold.\n\n2\n00:00:10,000 --> 00:00:11,000\nGo home.\n"


@pytest.fixture(scope="module")
def place(synthetic_video: tuple[Path, SyntheticVideo], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a video, subtitles, and a result of six scenes."""
    folder = tmp_path_factory.mktemp("search")
    shutil.copy(synthetic_video[0], folder / "movie.mp4")
    (folder / "movie.srt").write_text(SUBTITLES)
    predict_file(folder / "movie.mp4", folder / "movie.scenes.json", scenes=6)
    return folder


@pytest.fixture(scope="module")
def searchable(place: Path) -> list[dict[str, Any]]:
    """Return the lines of the export with vectors."""
    result = export(place / "movie.scenes.json", to="jsonl", vectors=True)
    return rows_of(result.paths[0])


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_scene_has_its_text_and_mean_encoding(place: Path, searchable: list[dict[str, Any]]) -> None:
    assert [row["index"] for row in searchable] == list(range(6))
    assert {row["video_id"] for row in searchable} == {"movie"}
    assert "".join(row["text"] for row in searchable) == "The harbor is cold.Go home."
    assert searchable[0]["text"].startswith("The harbor is cold.")
    of_shots = rows_of(export(place / "movie.scenes.json", output=place / "s.jsonl", vectors=True, shots=True).paths[0])
    for row in searchable:
        own = [np.array(shot["vector"]) for shot in of_shots[row["start_shot"] : row["end_shot"]]]
        np.testing.assert_allclose(row["vector"], np.mean(own, axis=0), atol=2e-5)


def test_scenes_in_memory_have_the_same_vectors(place: Path, searchable: list[dict[str, Any]], tmp_path: Path) -> None:
    result = predict(place / "movie.mp4", scenes=6)
    assert isinstance(result, SceneList)
    rows = rows_of(result.export(tmp_path / "a.jsonl", vectors=True).paths[0])
    assert [row["vector"] for row in rows] == [row["vector"] for row in searchable]


def test_a_keyframe_is_the_middle_one_of_newer_images(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(place / "movie.scenes.json", tmp_path)
    saved = save_images("movie.scenes.json", video=place / "movie.mp4", width=32)

    def keyframes() -> list[str | None]:
        return [row.get("keyframe") for row in rows_of(export("movie.scenes.json", to="jsonl").paths[0])]

    assert keyframes() == [str(image.path.absolute()) for image in saved[1::3]]
    later = saved[0].path.stat().st_mtime + 10
    os.utime("movie.scenes.json", (later, later))
    assert keyframes() == [None] * 6, "they may show other scenes"


def test_vectors_are_refused_for_other_formats_and_need_the_video(place: Path, tmp_path: Path) -> None:
    with pytest.raises(BasslError, match="`vectors` are for `to=jsonl`"):
        export(place / "movie.scenes.json", to="csv", vectors=True)
    lost = json.loads((place / "movie.scenes.json").read_text())
    lost["video"] |= {"path": "/nowhere/gone.mp4", "relative_path": "gone.mp4"}
    (tmp_path / "a.scenes.json").write_text(json.dumps(lost))
    with pytest.raises(BasslError, match="the video was not found"):
        export(tmp_path / "a.scenes.json", to="jsonl", vectors=True)


def test_the_command_adds_vectors(place: Path, bassl: Bassl, searchable: list[dict[str, Any]]) -> None:
    run = bassl("export", str(place / "movie.mp4"), "--to", "jsonl", "--vectors", "-o", "a.jsonl")
    assert run.code == 0, run.err
    assert rows_of(Path("a.jsonl"))[2]["vector"] == searchable[2]["vector"]
