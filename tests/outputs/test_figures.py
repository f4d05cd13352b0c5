"""Figures show the right numbers and names, and errors are one line."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from pipelines.errors import BasslError
from pipelines.models.bassl import load_bassl_model, save_bassl_model
from pipelines.options import with_options
from pipelines.outputs import plots
from pipelines.pretext.objective import ContrastiveHead, LinearContrastiveHead
from pipelines.scenes import group_shots, without_short
from pipelines.stages.build_index import build_index
from pipelines.stages.figure import (
    BoundarySettings,
    Legend,
    PseudoBoundarySettings,
    SimilaritySettings,
    draw_boundaries,
    draw_curves,
    draw_pseudo_boundaries,
    draw_similarity,
)
from pipelines.stages.score import score
from tests.scored_things import SHAPE, put_csv, put_index, put_pretrained, put_run, put_scenes, scene_list
from tests.small_stores import jpeg, put_features, put_store, refusal
from tests.videos import CUTS, FRAMES, images, number_of, write_video


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of five videos of 30 shots, their features and their labels."""
    folder = tmp_path_factory.mktemp("indexed")
    put_index(folder)
    put_pretrained(folder / "pretrained.safetensors")
    return folder


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved from here on."""
    figures: list[Figure] = []
    save = plots.save_plot

    def kept(path: Path, figure: Figure) -> tuple[str, ...]:
        figures.append(figure)
        return save(path, figure)

    monkeypatch.setattr(plots, "save_plot", kept)
    return figures


def video(folder: Path, number: int) -> tuple[NDArray[np.float64], list[int]]:
    """Features of a video of the index, and the shots that end its scenes, as its labels say."""
    with np.load(folder / "npz" / f"{number:02}.npz") as content:
        return content["features"].astype(np.float64), np.flatnonzero(content["scene_end"]).tolist()


def cosines(a: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([[x @ y / np.sqrt((x @ x) * (y @ y)) for y in a] for x in a])


def words(path: Path) -> str:
    return "\n".join(ET.parse(path).getroot().itertext())


def settings_of(folder: Path, **more: Any) -> dict[str, Any]:
    return {"index": folder / "index.h5", "features": folder / "features", **more}


# --- similarity -------------------------------------------------------------------------------------------------------


def test_similarities_use_stored_features_or_contextualised_shots(
    indexed: Path, tmp_path: Path, drawn: list[Figure]
) -> None:
    (store,) = (indexed / "features").iterdir()
    model = indexed / "pretrained.safetensors"
    settings = with_options(SimilaritySettings, **settings_of(indexed, video="npz/02", first=9, shots=12))
    assert draw_similarity([store, model], tmp_path / "f.png", settings).warnings == ()

    features, ends = video(indexed, 2)
    crn = load_bassl_model(model).build_crn().eval()
    shots = torch.from_numpy(features).float()
    inside = [[min(max(n + k, 0), 29) for k in range(-2, 3)] for n in range(30)]
    with torch.inference_mode():
        context = torch.stack([crn(shots[window][None])[0][0, SHAPE.center] for window in inside]).double().numpy()

    own, contextual = (panel.images[0] for panel in drawn[0].axes[:2])
    assert np.allclose(own.get_array(), cosines(features)[9:21, 9:21], atol=1e-5)
    assert np.allclose(contextual.get_array(), cosines(context)[9:21, 9:21], atol=1e-5)
    assert own.get_clim() == contextual.get_clim()  # colors can be compared
    assert own.get_extent() == [8.5, 20.5, 20.5, 8.5]  # so that ticks are numbers of shots
    # Each scene is outlined.
    starts = [9, *(end + 1 for end in ends if 9 <= end < 20)]
    boxes = {(box.get_x(), box.get_width()) for box in drawn[0].axes[0].patches}
    assert boxes == {(a - 0.5, b - a) for a, b in zip(starts, [*starts[1:], 21], strict=True)}
    assert len(boxes) > 1


def test_with_own_scales_each_matrix_starts_at_its_own_minimum(
    indexed: Path, tmp_path: Path, drawn: list[Figure]
) -> None:
    models = [*(indexed / "features").iterdir(), indexed / "pretrained.safetensors"]
    for own_scale in (True, False):
        settings = with_options(SimilaritySettings, **settings_of(indexed, video="npz/02", own_scale=own_scale))
        draw_similarity(models, tmp_path / "f.png", settings)
    own, shared = ([image for panel in figure.axes for image in panel.images][:2] for figure in drawn)
    lowest = [image.get_array().min() for image in own]
    assert lowest[0] != lowest[1]
    assert [image.get_clim() for image in own] == [(low, 1) for low in lowest]
    assert [image.get_clim() for image in shared] == [(min(lowest), 1)] * 2


# --- pseudo-boundaries ------------------------------------------------------------------------------------------------


def lanes_of(panel: Any) -> list[list[tuple[float, float]]]:
    """What the two lanes below a window show, as ranges of shots."""
    by_height: dict[float, list[tuple[float, float]]] = {}
    for bar in panel.patches:
        if bar.get_fill():
            span = (round(bar.get_x(), 1), round(bar.get_x() + bar.get_width(), 1))
            by_height.setdefault(bar.get_y(), []).append(span)
    return [by_height[y] for y in sorted(by_height, reverse=True)]


def spans(ends: list[int], length: int) -> list[tuple[float, float]]:
    starts = [0, *(end + 1 for end in ends if end < length - 1)]
    return [(float(a), float(b)) for a, b in zip(starts, [*starts[1:], length], strict=True)]


@pytest.mark.parametrize(("center", "first"), [(12, 8), (1, 0), (29, 21)])  # the last two at the video's edges
def test_a_window_shows_its_pseudo_boundary_and_its_true_scene_ends(
    indexed: Path, tmp_path: Path, drawn: list[Figure], center: int, first: int
) -> None:
    settings = with_options(PseudoBoundarySettings, **settings_of(indexed, neighbors=4))
    draw_pseudo_boundaries([f"npz/01:{center}"], tmp_path / "f.svg", settings)
    features, ends = video(indexed, 1)
    similarity = cosines(features[first : first + 9])[[0, -1]]
    cost = 1 - similarity
    best = min(range(8), key=lambda b: cost[0, : b + 1].sum() + cost[1, b + 1 :].sum())

    panel = drawn[0].axes[0]
    assert np.allclose([line.get_ydata() for line in panel.lines[:2]], similarity, atol=1e-5)
    assert panel.lines[2].get_xdata() == [best + 1, best + 1]
    actual, true = lanes_of(panel)
    assert actual == spans([best], 9)
    assert true == spans([end - first for end in ends if first <= end < first + 9], 9)
    assert f"npz/01, shots {first} to {first + 8}: pseudo-boundary after shot {first + best}" in words(
        tmp_path / "f.svg"
    )


@pytest.mark.parametrize("kind", [ContrastiveHead, LinearContrastiveHead])
def test_with_a_run_shots_are_compared_by_its_head_of_shot_scene_matching(
    indexed: Path, tmp_path: Path, drawn: list[Figure], kind: type[ContrastiveHead | LinearContrastiveHead]
) -> None:
    torch.manual_seed(1)
    weights, head = load_bassl_model(indexed / "pretrained.safetensors"), kind(8, 3)
    heads = {f"head_nce.{name}": tensor for name, tensor in head.state_dict().items()}
    save_bassl_model(tmp_path / "model.safetensors", replace(weights, heads=heads))
    settings = with_options(PseudoBoundarySettings, **settings_of(indexed, neighbors=4, model=tmp_path))
    draw_pseudo_boundaries(["npz/01:12"], tmp_path / "f.png", settings)
    with torch.inference_mode():
        projected = head(torch.from_numpy(video(indexed, 1)[0][8:17]).float()).double().numpy()
    assert np.allclose(
        [line.get_ydata() for line in drawn[0].axes[0].lines[:2]], cosines(projected)[[0, -1]], atol=1e-5
    )

    without = with_options(settings, model=indexed / "pretrained.safetensors")
    refusal(
        lambda: draw_pseudo_boundaries(["npz/01:12"], tmp_path / "f.png", without),
        "pretrained.safetensors: has no head of shot-scene matching",
        error=BasslError,
    )


def test_sampled_windows_contain_a_scene_end_and_depend_on_the_seed(
    indexed: Path, tmp_path: Path, drawn: list[Figure]
) -> None:
    for seed in (0, 0, 1):
        settings = with_options(PseudoBoundarySettings, **settings_of(indexed, neighbors=2, windows=3, seed=seed))
        draw_pseudo_boundaries([], tmp_path / "f.png", settings)
    titles = [[panel.get_title(loc="left") for panel in figure.axes] for figure in drawn]
    assert len(set(titles[0])) == 3
    assert titles[0] == titles[1] != titles[2]
    assert all(len(lanes_of(panel)[1]) > 1 for figure in drawn for panel in figure.axes)


@pytest.fixture
def with_keyframes(tmp_path: Path) -> Path:
    """An index of a video of ten shots with keyframes and no labels, whose features change after shot 5."""
    put_store(tmp_path / "keyframes" / "video.h5", shots=10)
    build_index([tmp_path / "keyframes"], output=tmp_path / "index.h5")
    (tmp_path / "features").mkdir()
    two = np.eye(4, dtype=np.float32)[[0] * 6 + [1] * 4]
    put_features(tmp_path / "features" / "made-up", "made up", {"video": two})
    return tmp_path


def test_keyframes_are_drawn_in_order_and_the_pseudo_boundary_is_framed(
    with_keyframes: Path, drawn: list[Figure]
) -> None:
    store = with_keyframes / "features" / "made-up"
    settings = with_options(PseudoBoundarySettings, **settings_of(with_keyframes, features=store, neighbors=3))
    draw_pseudo_boundaries(["video:5"], with_keyframes / "f.png", settings)
    panel = drawn[0].axes[0]
    assert len(panel.images) == 7
    for place, image in enumerate(panel.images):
        (with_keyframes / "k.jpg").write_bytes(jpeg(0, 2 + place, 1))  # the middle one of three
        whole = np.asarray(Image.open(with_keyframes / "k.jpg").resize((20, 12), Image.Resampling.BOX), float)
        shown = np.asarray(Image.fromarray(np.asarray(image.get_array())).resize((20, 12), Image.Resampling.BOX), float)
        assert np.abs(whole - shown).mean() < 12
        assert place < image.get_extent()[0] < image.get_extent()[1] < place + 1
    (frame,) = (patch for patch in panel.patches if not patch.get_fill())
    assert frame.get_x() == pytest.approx(3, abs=0.1)  # shot 5 of the shots 2 to 8
    assert lanes_of(panel) == [spans([3], 7)]
    assert "no labels" in [text.get_text() for text in panel.texts]


def test_similarities_are_drawn_below_the_keyframes(with_keyframes: Path, drawn: list[Figure]) -> None:
    settings = with_options(SimilaritySettings, **settings_of(with_keyframes, shots=8))
    draw_similarity([with_keyframes / "features" / "made-up"], with_keyframes / "f.png", settings)
    strip, matrix = drawn[0].axes[:2]
    assert len(strip.images) == 8
    assert np.array_equal(matrix.images[0].get_array()[0], [1, 1, 1, 1, 1, 1, 0, 0])
    assert not matrix.patches  # nobody knows where its scenes end
    assert drawn[0].get_suptitle() == "video, shots 0 to 7, without labels"


# --- predicted boundaries ---------------------------------------------------------------------------------------------


def test_each_lane_shows_its_own_shots_scores_and_scene_ends_by_time(tmp_path: Path, drawn: list[Figure]) -> None:
    first = put_scenes(tmp_path / "a.json")  # scenes end at 20 and 40
    second = tmp_path / "b.json"
    scene_list((0, 15, 22.5, 45, 50), [0, 1], (0.7, 0.8, 0.2, 0.4)).save(second)
    truth = put_csv(tmp_path / "t.csv", 0, 21, 30, 50)
    settings = with_options(BoundarySettings, truth=truth, within=2.0, labels=("one", "two"))
    draw_boundaries([first, second], tmp_path / "f.svg", settings)

    true, one, two = drawn[0].axes
    bars = [path.get_extents().intervalx.tolist() for bar in true.collections for path in bar.get_paths()]
    assert sorted(bars) == [[0, 21], [21, 30], [30, 50]]
    for panel, edges, scores, ends, hits in (
        (one, [0, 10, 20, 30, 40, 50], [0.1, 0.9, 0.2, 0.6, 0.3], [20, 40], [20]),
        (two, [0, 15, 22.5, 45, 50], [0.7, 0.8, 0.2, 0.4], [15, 22.5], [22.5]),
    ):
        stairs = panel.patches[0].get_data()
        assert np.allclose(stairs.edges, edges)
        assert np.allclose(stairs.values, scores)
        assert [path.vertices[0, 0] for path in panel.collections[0].get_paths()] == ends
        marked = {
            line.get_markerfacecolor(): list(line.get_xdata()) for line in panel.lines if line.get_marker() == "v"
        }
        assert sorted(time for times in marked.values() for time in times) == ends
        assert [times for color, times in marked.items() if color != "white"] == [hits]
        dashed = [line.get_xdata()[0] for line in panel.lines if line.get_marker() != "v"]
        assert dashed == [21, 30]
    text = words(tmp_path / "f.svg")
    for word in ("one", "two", "a.mp4", "3 scenes, boundary F1 within 2 s: 50.0", "0:20"):
        assert word in text


def test_predictions_can_be_drawn_as_keyframes_with_scenes_in_color(tmp_path: Path, drawn: list[Figure]) -> None:
    seconds = [frame / 24 for frame in (0, *CUTS, FRAMES)]
    path = write_video(tmp_path / "video.mp4", images(FRAMES, CUTS))
    for name, ends in (("a.json", [1]), ("b.json", [0, 2])):
        scenes = scene_list(seconds, ends, [0.1, 0.9, 0.2, 0.6], path.name)
        replace(scenes, video=replace(scenes.video, path=str(path))).save(tmp_path / name)
    truth = put_csv(tmp_path / "truth.csv", 0, seconds[2], seconds[4])
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    settings = with_options(BoundarySettings, shots=3, first=1, truth=truth)
    assert draw_boundaries(files, tmp_path / "f.png", settings).warnings == ()
    (panel,) = drawn[0].axes
    numbers = [number_of(np.asarray(image.get_array())) for image in panel.images]
    assert numbers == pytest.approx([(CUTS[0] + CUTS[1]) / 2, (CUTS[1] + CUTS[2]) / 2, (CUTS[2] + FRAMES) / 2], abs=1)
    assert lanes_of(panel) == [spans([0], 3), spans([1], 3), spans([0], 3)]  # a, b and the truth, from shot 1
    assert [text.get_text() for text in panel.texts] == ["a", "b", "true"]
    refusal(
        lambda: draw_boundaries(files, tmp_path / "f.png", with_options(settings, first=2)),
        "a: has 4 shots, 0 to 3, but not all of 2 to 4",
        error=BasslError,
    )


def test_f1_of_scenes_without_short_ones_equals_that_of_score(tmp_path: Path, drawn: list[Figure]) -> None:
    whole = scene_list((0, 30, 60, 63, 90, 120, 122), [1, 2, 4], (0.1, 0.9, 0.9, 0.1, 0.9, 0.1))
    kept = without_short(whole.scenes, 10.0)  # 0 to 60, and 63 to 120
    replace(whole, scenes=kept, settings={"drop_short": True}).save(tmp_path / "a.json")
    truth = put_csv(tmp_path / "t.csv", 0, 60, 63, 120, 122)
    scored = score(tmp_path / "a.json", truth, within=1.0, resamples=0)
    assert scored.measures["boundary_f1"].pooled == 1.0
    draw_boundaries([tmp_path / "a.json"], tmp_path / "f.svg", with_options(BoundarySettings, truth=truth, within=1.0))
    assert "boundary F1 within 1 s: 100.0" in words(tmp_path / "f.svg")
    assert [path.vertices[0, 0] for path in drawn[0].axes[1].collections[0].get_paths()] == [60, 63, 120]


@pytest.mark.parametrize("order", ["whole part", "part whole"])
def test_drawing_a_part_of_the_video_does_not_change_the_metrics(tmp_path: Path, order: str) -> None:
    whole = scene_list((0, 30, 60, 90, 120), [0, 2], (0.9, 0.1, 0.9, 0.9))
    whole.save(tmp_path / "whole.json")
    shots = tuple(replace(shot, index=index) for index, shot in enumerate(whole.shots[2:]))
    settings = {"start": 60.0, "end": None}
    replace(whole, shots=shots, scenes=group_shots(shots, [0, 1]), settings=settings).save(tmp_path / "part.json")
    truth = put_csv(tmp_path / "t.csv", 0, 30, 90, 120)
    settings_of_figure = with_options(BoundarySettings, truth=truth, within=1.0)
    draw_boundaries([tmp_path / f"{name}.json" for name in order.split()], tmp_path / "f.svg", settings_of_figure)
    assert words(tmp_path / "f.svg").count("boundary F1 within 1 s: 100.0") == 2


def test_the_threshold_is_drawn_only_if_it_decided_the_scenes(tmp_path: Path, drawn: list[Figure]) -> None:
    path = put_scenes(tmp_path / "a.json")
    content = path.read_text()
    for name, rule in (("t", '{"threshold": 0.25, "scenes": null}'), ("n", '{"threshold": 0.25, "scenes": 3}')):
        (tmp_path / f"{name}.json").write_text(content.replace('"settings": {}', f'"settings": {rule}'))
    draw_boundaries([tmp_path / "t.json", tmp_path / "n.json"], tmp_path / "f.png")
    flat = [[line.get_ydata()[0] for line in panel.lines if line.get_marker() != "v"] for panel in drawn[0].axes]
    assert flat == [[0.25], []]


def test_one_thing_to_draw_needs_no_list(tmp_path: Path, indexed: Path, with_keyframes: Path) -> None:
    log = put_logs(tmp_path / "run", "step,epoch,loss\n1,1,2\n2,1,1\n")
    scenes = put_scenes(tmp_path / "a.json")
    store = with_keyframes / "features" / "made-up"
    videos = with_options(SimilaritySettings, **settings_of(with_keyframes, video="video", shots=10))
    parts = with_options(PseudoBoundarySettings, **settings_of(indexed))
    for draw in (
        lambda out, as_given: draw_curves(as_given(log), out),
        lambda out, as_given: draw_boundaries(as_given(scenes), out),
        lambda out, as_given: draw_similarity(as_given(store), out, videos),
        lambda out, as_given: draw_pseudo_boundaries(as_given("npz/01:5"), out, parts),
    ):
        alone = [draw(tmp_path / f"{i}.png", given).path for i, given in enumerate((lambda one: [one], str))]
        assert alone[0].read_bytes() == alone[1].read_bytes()


def test_different_video_lengths_are_reported(tmp_path: Path) -> None:
    first = put_scenes(tmp_path / "a.json")
    scene_list((0, 15, 90), [0], (0.7, 0.8)).save(tmp_path / "b.json")
    (warning,) = draw_boundaries([first, tmp_path / "b.json"], tmp_path / "f.pdf").warnings
    assert "b.json lasts 90.0 s" in warning
    assert (tmp_path / "f.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(("start", "end"), [(None, 60.0), (30.0, 90.0)], ids=["beginning", "middle"])
def test_a_part_that_ends_before_the_video_counts_as_the_same_video(
    tmp_path: Path, start: float | None, end: float
) -> None:
    whole = scene_list((0, 30, 60, 90, 120), [0, 2], (0.9, 0.1, 0.9, 0.9))
    within = [shot for shot in whole.shots if shot.start >= (start or 0) and shot.end <= end]
    shots = tuple(replace(shot, index=index) for index, shot in enumerate(within))
    video = replace(whole.video, frames=shots[-1].end_frame, duration=end)
    part = replace(whole, video=video, shots=shots, scenes=group_shots(shots, [1]))
    replace(part, settings={"start": start, "end": end}).save(tmp_path / "part.json")
    whole.save(tmp_path / "whole.json")
    for order in (("whole", "part"), ("part", "whole")):
        assert draw_boundaries([tmp_path / f"{name}.json" for name in order], tmp_path / "f.svg").warnings == ()


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
        "knn@1": [([20], [0.5])],
        "val ap": [([10], [0.5])],
    }
    (band,) = drawn[0].axes[1].collections
    assert {tuple(point) for point in band.get_paths()[0].vertices} >= {(5, 4), (5, 5), (10, 1), (10, 2)}
    looks = {(line.get_color(), line.get_linestyle()) for line in drawn[0].axes[1].lines}
    assert len({color for color, _ in looks}) == len({dash for _, dash in looks}) == 2
    assert "one\n" in words(tmp_path / "f.svg")


# --- names and refusals -----------------------------------------------------------------------------------------------


def test_names_are_drawn_literally(tmp_path: Path) -> None:
    names = ("$x^$ & <b>", "_hidden", "two\nlines\x01", "long " * 40)
    runs = [put_logs(tmp_path / str(i), "step,epoch,loss\n1,1,2\n") for i in range(4)]
    draw_curves(runs, tmp_path / "f.svg", Legend(names))
    texts = [text for text in words(tmp_path / "f.svg").splitlines() if text.strip()]
    assert {"$x^$ & <b>", "_hidden", "two lines�"} <= set(texts)
    assert max(map(len, texts)) < 60
    (warning,) = draw_curves(runs[:1], tmp_path / "f.png", Legend(("映画",))).warnings
    assert "no 映 画" in warning
    assert draw_curves(runs[:1], tmp_path / "g.svg", Legend(("映画",))).warnings == ()


def test_a_figure_does_not_depend_on_matplotlibrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    run = put_logs(tmp_path / "run", "step,epoch,loss\n1,1,2\n2,1,1\n")
    for ending in plots.FORMATS:
        draw_curves([run], tmp_path / f"a{ending}")
    with monkeypatch.context() as patch:
        patch.setitem(mpl.rcParams, "font.size", 30)
        patch.setitem(mpl.rcParams, "figure.facecolor", "black")
        before = dict(mpl.rcParams)
        for ending in plots.FORMATS:
            draw_curves([run], tmp_path / f"b{ending}")
        assert dict(mpl.rcParams) == before
    for ending in plots.FORMATS:
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_invalid_settings_are_refused_on_construction() -> None:
    refusal(lambda: SimilaritySettings(shots=1), "shots must be at least 2", error=ValueError)
    refusal(lambda: PseudoBoundarySettings(windows=0), "windows must be at least 1", error=ValueError)
    refusal(lambda: BoundarySettings(shots=49), "shots must be 2 to 48, not 49", error=ValueError)
    refusal(lambda: PseudoBoundarySettings(seed=-1), "seed must be at least 0", error=ValueError)
    refusal(lambda: PseudoBoundarySettings(neighbors=0), "neighbors must be at least 1", error=ValueError)
    refusal(
        lambda: PseudoBoundarySettings(method="random"),  # type: ignore[arg-type]
        "dtw, mean, dtw-tslearn",
        "'random'",
        error=ValueError,
    )
    refusal(lambda: with_options(BoundarySettings, within=-1.0), "within", error=ValueError)


def test_impossible_figures_give_a_one_line_error_and_no_file(indexed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    out = folder / "f.png"
    (store,) = (indexed / "features").iterdir()
    scenes = put_scenes(tmp_path / "a.json")
    empty = put_logs(tmp_path / "empty", "step,epoch,loss\n")
    broken = put_logs(tmp_path / "broken", "step,epoch,loss\n1,1,2\n2,1,x\n3,1,1\n")
    endless = put_logs(tmp_path / "endless", "step,epoch,loss\nnan,1,2\n")
    other = tmp_path / "other"
    put_features(other, "other", {"99": np.ones((30, 8), np.float32)})
    fine = put_run(tmp_path / "fine")
    wide = tmp_path / "wide"
    put_features(wide, "wide", {"npz/00": np.ones((30, 9), np.float32)})

    def similar(*models: Path, **more: Any) -> Callable[[], object]:
        settings = with_options(SimilaritySettings, **settings_of(indexed, **{"video": "npz/00", **more}))
        return lambda: draw_similarity(models, out, settings)

    def divided(*windows: str, **more: Any) -> Callable[[], object]:
        return lambda: draw_pseudo_boundaries(
            windows, out, with_options(PseudoBoundarySettings, **settings_of(indexed, **more))
        )

    for draw, parts in (
        (similar(store, video="npz/0O"), ("no video 'npz/0O'", "did you mean npz/0")),
        (similar(store, video=None), ("5 videos", "`video`")),
        (similar(store, first=20), ("30 shots, 0 to 29", "20 to 35")),
        (similar(store, first=-1), ("-1 to 14",)),
        (similar(store, index=tmp_path / "no.h5"), ("no.h5", "build-index")),
        (similar(other), ("other", "has no features of npz/00")),
        (similar(tmp_path / "none"), ("none", "no such feature store, run or model")),
        (similar(fine, features=wide), ("wide", "9 wide", "is 8", "`features`")),
        (similar(store, store), ("two inputs have this name", "`label`")),
        (similar(store, labels=("a", "b")), ("2 labels for 1 input",)),
        (divided("npz/00:30"), ("npz/00 has 30 shots, 0 to 29, but no shot 30",)),
        (divided("npz/00"), ("'npz/00'", "VIDEO:SHOT")),
        (divided("npz/00:-1"), ("'npz/00:-1'", "VIDEO:SHOT")),
        (divided("7:1"), ("no video '7'",)),
        (divided("npz/00:3", neighbors=15), ("30 shots", "window of 31", "`neighbors`")),
        (divided(neighbors=15), ("no window of 31 shots",)),
        (divided(neighbors=10**12), ("no window of 2000000000001 shots",)),
        (lambda: plots.save_plot(out, Figure(figsize=(4, 500))), ("too much to draw",)),
        (divided("npz/00:3", features=other), ("other", "has no features of npz/00")),
        (lambda: draw_boundaries([tmp_path / "no.json"], out), ("no.json",)),
        (
            lambda: draw_boundaries([scenes], out, with_options(BoundarySettings, truth=tmp_path / "t.csv")),
            ("t.csv", "no such"),
        ),
        (lambda: draw_curves([tmp_path / "none"], out), ("none", "no such folder")),
        (lambda: draw_curves([indexed], out), ("contains no log.csv",)),
        (lambda: draw_curves([empty], out), ("log.csv", "no rows yet")),
        (lambda: draw_curves([broken], out), ("log.csv, line 3",)),
        (lambda: draw_curves([endless], out), ("log.csv, line 2",)),
        (lambda: draw_curves([empty], folder / "f.jpg"), ("f.jpg", ".png, .svg or .pdf")),
        (lambda: draw_curves([empty], indexed), (str(indexed), ".png")),
    ):
        refusal(draw, *parts, error=BasslError)
    (tmp_path / "a folder.png").mkdir()
    refusal(lambda: draw_curves([empty], tmp_path / "a folder.png"), "is a folder", error=BasslError)
    assert not list(folder.glob("*"))
