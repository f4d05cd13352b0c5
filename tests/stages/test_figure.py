"""Figures show the right numbers and names, and errors are one line."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pipelines.errors import BasslWarning, printable
from pipelines.stages import figure
from pipelines.stages.build_index import build_index
from pipelines.stages.figure import (
    draw_boundaries,
    draw_curves,
    draw_pseudo_boundaries,
)
from tests.scored_things import put_csv, put_index, put_scenes, scene_list
from tests.small_stores import put_features, put_store, refusal
from tests.videos import CUTS, FRAMES, images, number_of, write_video

FOUND, TRUE = figure.VERMILLION, figure.BLACK


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of five videos of 30 shots, their features and labels; a list of scenes, and some runs."""
    folder = tmp_path_factory.mktemp("indexed")
    put_index(folder)
    put_features(folder / "other", "other", {"99": np.ones((30, 8), np.float32)})
    put_scenes(folder / "a.json")
    for name, rows in (("run", "1,1,2\n"), ("empty", ""), ("broken", "1,1,2\n2,1,x\n3,1,1\n")):
        put_logs(folder / name, f"step,epoch,loss\n{rows}")
    (folder / "folder.png").mkdir()
    return folder


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved from here on."""
    figures: list[Figure] = []
    save = figure._save_plot

    def kept(path: Path, figure: Figure) -> Path:
        figures.append(figure)
        return save(path, figure)

    monkeypatch.setattr(figure, "_save_plot", kept)
    return figures


def video(folder: Path, number: int) -> tuple[NDArray[np.float64], list[int]]:
    """Features of a video of the index, and the shots that end its scenes, as its labels say."""
    with np.load(folder / "npz" / f"{number:02}.npz") as content:
        return content["features"].astype(np.float64), np.flatnonzero(content["scene_end"]).tolist()


def words(path: Path) -> str:
    return "\n".join(ET.parse(path).getroot().itertext())


def marks(panel: Axes, color: str) -> list[float]:
    """Where the vertical lines of a color stand."""
    lines = [line for line in panel.lines if line.get_color() == color]
    return [float(np.asarray(line.get_xdata())[0]) for line in lines]


def data_of(folder: Path, **more: Any) -> dict[str, Any]:
    return {"index": folder / "index.h5", "features": folder / "features", **more}


# --- pseudo-boundaries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("center", "first"), [(12, 8), (1, 0), (29, 21)])  # the last two at the video's edges
def test_a_window_shows_its_pseudo_boundary_and_its_true_scene_ends(
    indexed: Path, tmp_path: Path, drawn: list[Figure], center: int, first: int
) -> None:
    draw_pseudo_boundaries(f"npz/01:{center}", tmp_path / "f.svg", **data_of(indexed, neighbors=4))
    features, ends = video(indexed, 1)
    units = features[first : first + 9] / np.linalg.norm(features[first : first + 9], axis=1, keepdims=True)
    similarity = units[[0, -1]] @ units.T
    cost = 1 - similarity
    best = min(range(8), key=lambda b: cost[0, : b + 1].sum() + cost[1, b + 1 :].sum())

    panel = drawn[0].axes[0]
    assert np.allclose([line.get_ydata() for line in panel.lines[:2]], similarity, atol=1e-5)
    assert marks(panel, FOUND) == [first + best + 0.5]
    assert marks(panel, TRUE) == [end + 0.5 for end in ends if first <= end < first + 8]
    assert f"npz/01, shots {first} to {first + 8}" in words(tmp_path / "f.svg")

    draw_pseudo_boundaries([], tmp_path / "f.png", **data_of(indexed, neighbors=2, windows=3))  # of random windows
    assert len({panel.get_title(loc="left") for panel in drawn[1].axes}) == 3
    assert all(marks(panel, TRUE) for panel in drawn[1].axes)


def test_keyframes_are_drawn_in_order(tmp_path: Path, drawn: list[Figure]) -> None:
    put_store(tmp_path / "keyframes" / "video.h5", shots=10)
    build_index([tmp_path / "keyframes"], output=tmp_path / "index.h5")
    two = np.eye(4, dtype=np.float32)[[0] * 6 + [1] * 4]
    put_features(tmp_path / "store", "made up", {"video": two})
    draw_pseudo_boundaries("video:5", tmp_path / "f.png", **data_of(tmp_path, features=tmp_path / "store", neighbors=3))
    (panel,) = drawn[0].axes
    places = [(image.get_extent()[0] + image.get_extent()[1]) / 2 for image in panel.images]
    assert places == pytest.approx(range(2, 9))
    shades = [np.asarray(image.get_array()).mean() for image in panel.images]
    assert len(set(shades)) == 7
    assert (marks(panel, FOUND), marks(panel, TRUE)) == ([5.5], [])


# --- predicted boundaries ---------------------------------------------------------------------------------------------


def test_each_panel_shows_its_own_shots_scores_and_scene_ends_by_time(tmp_path: Path, drawn: list[Figure]) -> None:
    first = put_scenes(tmp_path / "a.json")  # scenes end at 20 and 40
    second = tmp_path / "b.json"
    scene_list((0, 15, 22.5, 45, 50), [0, 1], (0.7, 0.8, 0.2, 0.4)).save(second)
    truth = put_csv(tmp_path / "t.csv", 0, 21, 30, 50)
    draw_boundaries([first, second], tmp_path / "f.svg", truth=truth, labels=("one", "two"))
    one, two = drawn[0].axes
    for panel, edges, scores, ends in (
        (one, [0, 10, 20, 30, 40, 50], [0.1, 0.9, 0.2, 0.6, 0.3], [20, 40]),
        (two, [0, 15, 22.5, 45, 50], [0.7, 0.8, 0.2, 0.4], [15, 22.5]),
    ):
        stairs: Any = panel.patches[0]
        assert np.allclose(stairs.get_data().edges, edges)
        assert np.allclose(stairs.get_data().values, scores)
        assert (marks(panel, FOUND), marks(panel, TRUE)) == (ends, [21, 30])
    text = words(tmp_path / "f.svg")
    for word in ("one, 3 scenes", "two, 3 scenes", "a.mp4", "00:00:30", "true scene end"):
        assert word in text


def test_predictions_can_be_drawn_over_keyframes(tmp_path: Path, drawn: list[Figure]) -> None:
    seconds = [frame / 24 for frame in (0, *CUTS, FRAMES)]
    path = write_video(tmp_path / "video.mp4", images(FRAMES, CUTS))
    for name, ends in (("a.json", [1]), ("b.json", [0, 2])):
        scenes = scene_list(seconds, ends, [0.1, 0.9, 0.2, 0.6], path.name)
        replace(scenes, video=replace(scenes.video, path=str(path))).save(tmp_path / name)
    truth = put_csv(tmp_path / "truth.csv", 0, seconds[2], seconds[4])
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    draw_boundaries(files, tmp_path / "f.png", shots=3, first=1, truth=truth)
    for panel, ends in zip(drawn[0].axes, ([1.5], [0.5, 2.5]), strict=True):
        numbers = [number_of(np.asarray(image.get_array())) for image in panel.images]
        middles = [(CUTS[0] + CUTS[1]) / 2, (CUTS[1] + CUTS[2]) / 2, (CUTS[2] + FRAMES) / 2]
        assert numbers == pytest.approx(middles, abs=1)
        assert (marks(panel, FOUND), marks(panel, TRUE)) == (ends, [1.5])


# --- training curves --------------------------------------------------------------------------------------------------


def put_logs(run: Path, log: str, validation: str | None = None) -> Path:
    run.mkdir(parents=True)
    (run / "log.csv").write_text(log)
    if validation is not None:
        (run / "validation.csv").write_text(validation)
    return run


def test_curves_are_the_columns_of_the_logs_and_seeds_share_a_line(tmp_path: Path, drawn: list[Figure]) -> None:
    one = put_logs(
        tmp_path / "one",
        "step,epoch,learning_rate,loss,windows_per_second,waiting\n10,1,0.1,3,9,0\n20,1,0.2,2.5,9,0\n30,2,0.",
        "step,epoch,knn@1\n20,1,0.5\n",
    )
    two = put_logs(
        tmp_path / "two",
        "step,seed,epoch,learning_rate,loss,shots_per_second,waiting\n"
        "5,7,1,0.3,4,9,0\n10,7,2,0.1,2,9,0\n15,8,1,0.3,5,9,0\n20,8,2,0.1,1,9,0\n",
        "step,seed,epoch,val_ap\n10,7,2,0.25\n20,8,2,0.75\n",
    )
    draw_curves([one, two], tmp_path / "f.svg")
    lines = {
        panel.get_title(): [(list(line.get_xdata()), list(line.get_ydata())) for line in panel.lines]
        for panel in drawn[0].axes
    }
    assert lines == {
        "learning rate": [([10, 20], [0.1, 0.2]), ([5, 10], [0.3, 0.1])],
        "loss": [([10, 20], [3, 2.5]), ([5, 10], [4.5, 1.5])],
        "knn@1": [([20], [0.5]), ([], [])],
        "val ap": [([], []), ([10], [0.5])],
    }
    _, band = drawn[0].axes[1].collections
    assert {tuple(point) for point in band.get_paths()[0].vertices} >= {(5, 4), (5, 5), (10, 1), (10, 2)}
    looks = {(line.get_color(), line.get_linestyle()) for line in drawn[0].axes[1].lines}
    assert len({color for color, _ in looks}) == len({dash for _, dash in looks}) == 2
    assert "one\n" in words(tmp_path / "f.svg")


# --- names, style and refusals ----------------------------------------------------------------------------------------


def test_names_are_drawn_literally(tmp_path: Path) -> None:
    names = ("$x^$ & <b>", "_hidden", "two\nlines\x01", "long " * 40)
    runs = [put_logs(tmp_path / f"{i}" / "run", "step,epoch,loss\n1,1,2\n") for i in range(4)]
    draw_curves(runs, tmp_path / "f.svg", labels=names)
    texts = {text.strip() for text in words(tmp_path / "f.svg").splitlines()}
    assert {"$x^$ & <b>", "_hidden", "two\\nlines\\x01"} <= texts
    assert max(map(len, texts)) < 60
    draw_curves(runs[:2], tmp_path / "f.svg")  # of the same name
    assert all(printable(str(run), figure.LONGEST) in words(tmp_path / "f.svg") for run in runs[:2])
    with pytest.warns(BasslWarning, match=r"f\.png: its font lacks some characters"):
        draw_curves(runs[:1], tmp_path / "f.png", labels=("映画",))
    with warnings.catch_warnings():
        warnings.simplefilter("error", BasslWarning)
        draw_curves(runs[:1], tmp_path / "g.svg", labels=("映画",))


def windows(*names: str, **more: Any) -> Callable[[], object]:
    return lambda: draw_pseudo_boundaries(names, "out/f.png", **{**data_of(Path()), **more})


@pytest.mark.parametrize(
    ("draw", "parts"),
    [
        (windows("npz/00:3", index=Path("no.h5")), ("no.h5", "build-index")),
        (windows("npz/00:30"), ("no shot 'npz/00:30'", "VIDEO:SHOT, counted from 0")),
        (windows("npz/00"), ("no shot 'npz/00'",)),
        (windows("npz/00:-1"), ("no shot 'npz/00:-1'",)),
        (windows("npz/00:3", neighbors=15), ("in a video of 31 shots or more",)),
        (windows(neighbors=15), ("no window of 31 shots",)),
        (windows("npz/00:3", features=Path("other")), ("other", "has no features of npz/00")),
        (windows(windows=0), ("windows must be at least 1",)),
        (windows(neighbors=0), ("neighbors must be at least 1",)),
        (lambda: draw_boundaries("no.json", "out/f.png"), ("no.json",)),
        (lambda: draw_boundaries("a.json", "out/f.png", truth="t.csv"), ("t.csv", "no such")),
        (lambda: draw_boundaries("a.json", "out/f.png", shots=3, first=3), ("has 5 shots, but not all of 3 to 5",)),
        (lambda: draw_boundaries("a.json", "out/f.png", shots=49), ("shots must be from 2 to 48, not 49",)),
        (lambda: draw_curves("none", "out/f.png"), ("none", "has no log.csv with rows")),
        (lambda: draw_curves("empty", "out/f.png"), ("empty", "has no log.csv with rows")),
        (lambda: draw_curves("broken", "out/f.png"), ("log.csv: is not the log of a run",)),
        (lambda: draw_curves("run", "out/f.png", labels=("a", "b")), ("2 labels for 1 input",)),
        (lambda: draw_curves("run", "out/f.jpg"), ("f.jpg", ".png, .svg or .pdf")),
        (lambda: draw_curves("run", "folder.png"), ("is a folder",)),
    ],
)
def test_impossible_figures_give_a_one_line_error_and_no_file(
    indexed: Path, monkeypatch: pytest.MonkeyPatch, draw: Callable[[], object], parts: tuple[str, ...]
) -> None:
    monkeypatch.chdir(indexed)
    refusal(draw, *parts, error=Exception)
    assert not list(Path().glob("out/*"))
