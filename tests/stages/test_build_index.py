"""From every kind of source to one index: small files in the true formats, and the real annotation files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.datasets.movienet import KeyframeReader
from pipelines.errors import BasslError
from pipelines.models.scenes import choose_scenes
from pipelines.settings import Grouping, RunSettings
from pipelines.stages.build_index import IndexReport, SplitStatistics, build_index, describe_index
from pipelines.stores.features import feature_file, open_features
from pipelines.stores.index import NO_LABEL, Index, IndexedVideo, joined, save_index
from pipelines.stores.keyframes import read_keyframes
from pipelines.video.inputs import video_ids
from tests.datasets.annotation_files import BBC_SHOTS, put_bbc, put_npz, put_ovsd, scenes_json
from tests.datasets.movienet_files import put, put_keyframes, put_labels, put_movienet, put_shots, put_split
from tests.outputs import exporting
from tests.running import PUBLISHED
from tests.scored_things import put_csv, scene_list
from tests.small_stores import features_in, jpeg, put_store, read_all, refusal

MOVIENET = Path("movienet")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def build(*sources: Path | str, **options: Any) -> IndexReport:
    """Build the index of the sources, `data/index.h5` by default."""
    return build_index(sources, **options)


def features_of(index: Index) -> dict[str, NDArray[np.float32]]:
    """Read the features in the stores of an index, by video."""
    return {name: rows for store in index.features.values() for name, rows in features_in(store).items()}


# Sources


def test_a_folder_of_keyframe_stores_is_indexed() -> None:
    put_store("stores/index.h5", 4, seed=1)  # of a video of this name
    put_store("stores/a.h5", 2, seed=2)
    Path("stores/._a.h5").write_bytes(b"what another system leaves behind")
    report = build("stores")
    index = report.index
    assert index.video_ids == ("a", "index")
    assert index.first_row.tolist() == [0, 2, 6]
    assert index.keyframes == 3
    assert index.frames[:3].tolist() == [[0, 50], [50, 100], [0, 50]]
    assert index.seconds[1].tolist() == [2.0, 4.0]
    assert (index.label == NO_LABEL).all()
    store = read_keyframes(Path("stores/index.h5"))
    assert index.jpeg[2:, :-1].ravel().tolist() == store.jpeg_offsets[:-1].tolist()
    assert index.jpeg_crc32[2:].ravel().tolist() == store.jpeg_crc32.tolist()
    assert report.notes == ("2 of 2 videos have no labels: a, index", "2 of 2 videos have no split: a, index")
    assert report.matches == {}
    before = index.path.read_bytes()
    assert build("stores/index.h5", "stores/a.h5", overwrite=True).index.path.read_bytes() == before


def test_movienet_keyframes_are_indexed_in_place(tmp_path: Path) -> None:
    put_movienet(MOVIENET)
    (MOVIENET / "features.h5").write_bytes(b"of another program")
    report = build(MOVIENET)
    index = report.index
    assert index.video_ids == ("tt01", "tt02", "tt03")
    assert index.splits == ("train", "test", "")
    assert index.label.tolist() == [1, -1, 0, 0, 1, 0, NO_LABEL, NO_LABEL]
    assert index.targets(index.rows_of(["train"])).tolist() == [1, 1, 0]
    assert index.frames[:3].tolist() == [[0, 49], [49, 330], [330, 500]]
    assert index.seconds[1].tolist() == [49 / 24, 330 / 24]
    assert index.frames[6:].tolist() == [[0, 1], [1, 2]]  # without a shot list a shot counts as a frame
    assert np.isnan(index.seconds[6:]).all()
    sources = [source.resolve() for source in index.keyframe_sources if source]
    assert sources == [tmp_path / "movienet/240P_frames" / video for video in index.video_ids]
    assert report.notes == (
        "no video is in the split val",
        "1 of 3 videos have no labels: tt03",
        "1 of 3 videos have no split: tt03",
        "1 of 3 videos have no times in seconds: tt03",
    )
    assert read_all(KeyframeReader(index), [0, 1, 2]) == [
        [jpeg(0, shot, image) for image in range(3)] for shot in range(3)
    ]


def test_only_complete_leaves_out_and_counts_incomplete_and_damaged_videos() -> None:
    put_movienet(MOVIENET)
    for video in ("tt04", "tt05", "tt06"):
        put_shots(MOVIENET, video, [(0, 48), (49, 329), (330, 499)])
        put_labels(MOVIENET, [0, 1], video)
    put_labels(MOVIENET, [0, 1], "tt07")  # labels of shots that nothing lists
    (put_keyframes(MOVIENET, "tt05", 3, seed=0) / "shot_0001_img_2.jpg").unlink()
    put_keyframes(MOVIENET, "tt06", 4, seed=0)
    put(Path("split.json"), json.dumps({"train": ["tt01"], "test": ["tt04"]}))  # may name what is left out
    refusal(lambda: build(MOVIENET), error=BasslError)
    report = build(MOVIENET, only_complete=True, split="split.json")
    assert report.index.splits == ("train", "", "")
    assert "no video is in the split test" in report.notes
    assert report.index.video_ids == ("tt01", "tt02", "tt03")
    first, *others = [note for note in report.notes if "left out" in note]
    assert first == "4 of 7 videos are left out, 1 of them because they have no keyframes or features"
    assert [note.split()[0] for note in others] == ["tt05", "tt06", "tt07"]
    assert "lacks shot_0001_img_2.jpg" in others[0]
    assert "has keyframes of 4 shots" in others[1]
    put_npz("vgg", "01")
    Path("vgg/02.npz").write_bytes(b"damaged")
    report = build("vgg", only_complete=True, overwrite=True)
    assert report.index.video_ids == ("vgg/01",)
    assert any(note.startswith("vgg/02 is left out: vgg/02.npz: not an .npz file") for note in report.notes)


def test_sources_of_several_formats_are_indexed_together() -> None:
    put_bbc(Path("bbc"), BBC_SHOTS, "0,1,3,4")
    put_bbc(Path("bbc"), BBC_SHOTS, "0,2,4", annotator=1)
    Path("ovsd").mkdir()
    put_ovsd(Path("ovsd"), "0\t110\n111\t270\n271\t399")
    put_npz("vgg", "01")
    put(Path("video.json"), json.dumps(scenes_json()))
    report = build("bbc", "ovsd", "vgg", "video.json", annotator=1)
    index = report.index
    assert index.video_ids == ("02", "bbc_01", "vgg/01", "video")
    assert index.label.tolist() == [1, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0]
    assert index.settings["annotator"] == 1
    assert "2 of 4 videos have no times in seconds: 02, vgg/01" in report.notes


def test_npz_features_are_written_into_a_store_of_their_folder_also_through_links_and_beside_other_files(
    tmp_path: Path,
) -> None:
    put_npz("bbc", "01", scene_end=np.array([1, 0, 1], np.uint8))
    put_npz("elsewhere/other", "02", frame_rate=np.float64(50))
    Path("y/bbc").mkdir(parents=True)
    Path("y/bbc/titles.json").write_text("{}")
    Path("y/bbc/link").symlink_to(tmp_path / "elsewhere/other")
    index = build("bbc", "y/bbc", frame_rate=20.0).index
    assert index.video_ids == ("bbc/01", "other/02")
    assert index.label.tolist() == [1, 0, 0, 0, 1, 0]  # the video's end is no scene end
    assert index.seconds[[1, 4]].tolist() == [[10 / 20, 25 / 20], [10 / 50, 25 / 50]]
    store = tmp_path / "data" / "features" / "bbc-4d"
    assert {name: path.resolve() for name, path in index.features.items()} == {"bbc-4d": store}
    assert open_features(feature_file(store, "bbc/01")).encoder == "bbc-4d"
    np.testing.assert_array_equal(features_of(index)["other/02"], np.arange(12).reshape(3, 4) + 2)
    put_npz("bbc", "01", features=np.ones((3, 4), np.float32))  # as other features are refused without `overwrite`
    index = build("bbc", output="data/other.h5", overwrite=True).index
    np.testing.assert_array_equal(features_of(index)["bbc/01"], np.ones((3, 4)))
    shutil.rmtree(store)
    (note,) = (note for note in describe_index(index.path).notes if "no longer exist" in note)
    assert note.startswith("features bbc-4d no longer exist: ")


# Labels of others on our shots


def test_scenes_of_a_csv_are_matched_to_the_shots_of_the_store() -> None:
    put_store("stores/video.h5", 5)
    put_store("stores/without_labels.h5", 3)
    put_csv("labels/video.csv", 0, 2.2, 6.9, 8.6, 10)
    put_csv("labels/nobody.csv", 0, 3)
    report = build("stores", labels="labels", tolerance=0.5)
    assert report.index.label.tolist() == [1, 0, 0, 0, 0, NO_LABEL, NO_LABEL, NO_LABEL]
    match = report.matches["video"]
    assert (match.scene_ends, match.matched, match.at_video_end, match.unmatched) == (3, 1, 1, (6.9, 8.6))
    assert match.mean_distance == pytest.approx(0.2)
    assert "1 labeled video is not among the sources: nobody" in report.notes
    assert "1 of 2 videos have no labels: without_labels" in report.notes
    more = build("stores", labels="labels", tolerance=1.0, overwrite=True)
    assert more.matches["video"].matched == 3
    assert more.index.label.tolist()[:5] == [1, 0, 1, 1, 0]
    timecodes = put(Path("video.csv"), "start,end\n00:00:00:00,00:00:05:24\n00:00:05:24,00:00:10:00\n")
    report = build("stores/video.h5", labels=timecodes, frame_rate=25.0, overwrite=True)
    assert report.index.label.tolist() == [0, 0, 1, 0, 0]
    assert report.matches["video"].mean_distance == pytest.approx(0.04)


def test_labels_with_the_name_of_the_video_match_its_store(tmp_path: Path) -> None:
    names = ("1999/a.mp4", "2001/a.mp4", "with space.mp4", "behind_the_scenes.mp4")
    videos = [tmp_path / name for name in names]
    for name in video_ids(videos):
        put_store(f"stores/{name}.h5", shots=10)
    labels = tuple(put_csv(video.with_suffix(".csv"), 0, 4, 10) for video in videos)
    report = build("stores", labels=labels, tolerance=1e6)
    assert sorted(report.matches) == ["1999_a", "2001_a", "behind_the_scenes", "with_space"]


def test_movienet_labels_on_stores_bring_their_splits() -> None:
    put_shots(MOVIENET, "tt01", [(0, 23), (24, 47), (48, 143), (144, 239)])
    put_labels(MOVIENET, [0, 1, -1], "tt01")
    put_split(MOVIENET, val=["tt01"])
    # Frames of the same file: frames 48 and 144 of 50 a shot.
    report = build(put_store("stores/tt01.h5", 5), labels=MOVIENET)
    assert report.index.splits == ("val",)
    assert report.index.label.tolist() == [1, 0, -1, 0, 0]
    assert report.matches["tt01"].matched == 2


def test_for_a_part_of_a_video_labels_outside_it_are_reported_and_its_own_hours_counted() -> None:
    part = scene_list((3600, 4500, 5400, 7200), [0], (0.9, 0.2, 0.3))
    replace(part, settings={"start": 3600}).save(Path("video.json"))
    report = build("video.json", labels=put_csv("labels/video.csv", 0, 1800, 5400, 8000, 9000))
    assert report.index.label.tolist() == [0, 1, 0]
    match = report.matches["video"]
    assert (match.scene_ends, match.matched, match.outside) == (1, 1, 3)
    assert "video: 3 of 4 labeled scene ends are outside its shots" in report.notes
    assert report.splits[0].hours == 1.0


# Splits


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    for number in range(31):
        put_store(folder / f"v{number:03}.h5", shots=1)
    return folder


@pytest.mark.parametrize(
    ("videos", "shares"),
    [
        (1, (0.6, 0.2, 0.2)),
        (2, (0.6, 0.2, 0.2)),
        (3, (1 / 3, 1 / 3, 1 / 3)),
        (7, (0.5, 0.5)),
        (10, (1.0, 0.0)),
        (31, (0.0, 0.1, 0.9)),
    ],
)
def test_split_shares_are_met_up_to_rounding(stores: Path, videos: int, shares: tuple[float, ...]) -> None:
    report = build(*sorted(stores.iterdir())[:videos], split=shares)
    names = ("train", "val", "test") if len(shares) == 3 else ("train", "test")
    assert set(report.index.splits) <= set(names)
    for name, share in zip(names, shares, strict=True):
        assert abs(report.index.splits.count(name) - share * videos) <= 1
        assert share > 0 or name not in report.index.splits
    assert ("no video is in the split val" in report.notes) == ("val" not in report.index.splits)


def test_the_split_depends_on_the_seed_and_not_on_the_order_of_sources(stores: Path) -> None:
    def splits(files: list[Path], seed: int) -> tuple[str, ...]:
        return build(*files, split="0.6,0.2,0.2", seed=seed, overwrite=True).index.splits

    files = sorted(stores.iterdir())
    assert splits(files, 3) == splits(files[::-1], 3) != splits(files, 4)
    assert build(stores, overwrite=True).index.splits == ("",) * 31


def test_a_drawn_split_or_the_list_of_a_json_file_replaces_the_splits_of_the_source() -> None:
    assert build(put_movienet(MOVIENET)).index.splits == ("train", "test", "")
    index = build(MOVIENET, split=(0.0, 1.0), overwrite=True).index
    assert index.splits == ("test", "test", "test")
    assert index.settings["split"] == [0.0, 1.0]
    put(Path("splits.json"), '{"train": ["tt03"], "test": ["tt01"]}')
    index = build(MOVIENET, split="splits.json", overwrite=True).index
    assert index.splits == ("test", "", "train")
    assert index.settings["split"] == "splits.json"


# Statistics


def video(name: str, label: list[int], split: str = "", seconds: bool = True) -> IndexedVideo:
    starts = np.arange(len(label))[:, None]
    times = 1800.0 * (starts + np.array([0, 1]))
    frames, labels = 10 * starts + np.array([0, 10]), np.array(label, np.int8)
    return IndexedVideo(name, name, frames, times if seconds else times * np.nan, labels, split)


def test_statistics_by_split_have_a_total_unless_there_is_one_split() -> None:
    videos = [
        video("a", [0, 1, -1, 0], "train"),
        video("b", [NO_LABEL] * 2, "train"),
        video("c", [0, 0, 0], "test", seconds=False),
        video("d", [1, 0], "val"),
        video("e", [NO_LABEL], "pretrain"),
        video("f", [NO_LABEL]),
    ]
    save_index(joined(Path("i.h5"), videos, {}))
    assert describe_index("i.h5").splits == (
        SplitStatistics("train", videos=2, labeled=1, scenes=3, shots=6, hours=3.0),
        SplitStatistics("val", videos=1, labeled=1, scenes=2, shots=2, hours=1.0),
        SplitStatistics("test", videos=1, labeled=1, scenes=1, shots=3, hours=None),
        SplitStatistics("none", videos=1, labeled=0, scenes=0, shots=1, hours=0.5),
        SplitStatistics("pretrain", videos=1, labeled=0, scenes=0, shots=1, hours=0.5),
        SplitStatistics("all", videos=6, labeled=3, scenes=6, shots=13, hours=None),
    )
    save_index(joined(Path("i.h5"), [video("a", [1, 0])], {}))
    assert describe_index("i.h5").splits == (SplitStatistics("none", 1, 1, 2, 2, 1.0),)


# What is missing, and what is refused


SPLIT_FILES = ('{"train": ["a"], "test": ["a"]}', '{"train": ["x"]}', '["a"]', "{")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, video: Path) -> Iterator[Path]:
    """Make a folder with an index, the stores that it is made of, and sources that are refused."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        put_npz("one/bbc")
        build(put_store("data/keyframes/a.h5"), "one/bbc")
        put_npz("two/bbc", features=np.ones((3, 4), np.float32))
        put_npz("far/vgg", shots=np.array([[0, 10], [10, 25], [2**40, 2**40 + 1]], np.int64))
        put_npz("widths/vgg", "01", size=4)
        put_npz("widths/vgg", "02", size=5)
        put_npz("damaged").write_bytes(b"damaged")
        for name, images in (("x/video", 3), ("y/video", 3), ("single", 1), ("triple", 3)):
            put_store(f"{name}.h5", images=images)
        for name in ("x/video", "y/video", "02"):
            put_csv(f"{name}.csv", 0, 4)
        for folder_name in ("empty", "videos", "ovsd"):
            Path(folder_name).mkdir()
        put_ovsd(Path("ovsd"), "0\t110\n111\t270\n271\t399")
        put(Path("notes.md"), "# Notes")
        shutil.copy(video, "videos/video.mp4")
        for number, text in enumerate(SPLIT_FILES):
            put(Path(f"splits{number}.json"), text)
        put_shots(Path("shots"))
        put_movienet(MOVIENET)
    return folder


VIDEOS = "for videos, run `bassl extract-keyframes` first"
STORES = "data/keyframes"
NO_SHARES = ((), (1.0,), (0.5, 0.6), (0.5, 0.4), (1.5, -0.5), (0.25,) * 4, (np.nan, 1.0), (np.inf, 0.0))
NEW = {"output": "new.h5", "overwrite": False}

REFUSED: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("", {}, ("nothing to index",)),
    ("empty", {}, ("empty: ", "nothing in a supported format")),
    ("notes.md", {}, ("notes.md: unsupported format",)),
    ("no", {}, ("no: no such file",)),
    ("videos/video.mp4", {}, ("videos/video.mp4", VIDEOS)),
    ("videos", {}, ("videos", VIDEOS)),
    ("data", NEW, ("data: contains an index", STORES)),
    ("data/index.h5", NEW, ("bassl.index", "bassl.keyframes")),
    ("movienet/scene318", {}, ("contains nothing in a supported format", "MovieNet")),
    ("shots", {"only_complete": True}, ("no video is complete", "has no keyframes")),
    (STORES, {"overwrite": False}, ("data/index.h5", "`overwrite=True`")),
    ("x/video.h5 y/video.h5", {}, ("'video'", "x/video.h5", "y/video.h5")),
    ("single.h5 triple.h5", {}, ("1 (single.h5), 3 (triple.h5)",)),
    ("damaged", {}, ("damaged/01.npz",)),
    ("widths/vgg", {}, ("vgg-4d", "different widths", "4 and 5")),
    ("far/vgg", {}, ("far/vgg/01.npz: shot 2, ", "outside the valid range")),
    ("one/bbc two/bbc", {}, ("'bbc/01'",)),
    ("two/bbc", NEW, ("bbc-4d/bbc_01-", "other features", "`feature_folder`")),
    (STORES, {"labels": "nowhere.csv"}, ("nowhere.csv: no such file",)),
    ("x/video.h5", {"labels": ("x/video.csv", "y/video.csv")}, ("x/video.csv", "y/video.csv")),
    ("ovsd", {"labels": "02.csv"}, ("02_scenes.txt", "no times in seconds", "02.csv")),
    ("x/video.csv", {}, ("x/video.csv", "`labels`")),
    (STORES, {"split": "splits0.json"}, ("splits0.json: ", "two splits")),
    (STORES, {"split": "splits1.json"}, ("splits1.json: ", "lists x")),
    (STORES, {"split": "splits2.json"}, ("splits2.json: ", "Expected object, got array")),
    (STORES, {"split": "splits3.json"}, ("splits3.json",)),
    (STORES, {"tolerance": -1.0}, ("tolerance",)),
    (STORES, {"tolerance": float("nan")}, ("tolerance",)),
    (STORES, {"doubtful": "maybe"}, ("'maybe'",)),
    (STORES, {"seed": -1}, ("seed must be from 0 to",)),
    (STORES, {"frame_rate": 0.0}, ("frames per second",)),
    (STORES, {"split": "a,b"}, ("'a,b'",)),
    *((STORES, {"split": shares}, ("0.6,0.2,0.2",)) for shares in NO_SHARES),
]


@pytest.mark.parametrize(("sources", "options", "words"), REFUSED)
def test_sources_that_cannot_be_indexed_are_refused_and_no_file_changes(
    place: Path, monkeypatch: pytest.MonkeyPatch, sources: str, options: dict[str, Any], words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    refusal(lambda: build(*sources.split(), **{"overwrite": True, **options}), *words, error=Exception)
    assert {path: path.read_bytes() for path in before} == before
    assert not Path("new.h5").exists()


# The real thing


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the real files are not here")
@pytest.mark.parametrize(("name", "videos", "shots", "ends"), [("bbc", 11, 4855, 557), ("ovsd", 14, 2960, 259)])
def test_the_published_annotations_and_features_are_indexed(name: str, videos: int, shots: int, ends: int) -> None:
    for kind in ("annotations", "features"):
        report = build(PUBLISHED / kind / name, overwrite=True)
        index, (split,) = report.index, report.splits
        assert split == SplitStatistics("none", videos, videos, ends + videos, shots, split.hours)
        assert int(index.targets(index.rows_of(labeled=True)).sum()) == ends
    assert sum(map(len, features_of(index).values())) == shots


def test_predictions_are_not_taken_for_labels_unless_they_are_accepted_or_were_corrected(tmp_path: Path) -> None:
    listed = exporting.scene_list([50] * 5, [1, 4])
    predicted = replace(listed, settings={"bassl": "0.1.0", **Grouping().resolved()})
    predicted = replace(predicted, scenes=choose_scenes(predicted.shots, **Grouping().resolved()))
    path, index = tmp_path / "video.scenes.json", tmp_path / "index.h5"
    predicted.save(path)
    named = replace(predicted, scenes=(replace(predicted.scenes[0], name="Begin"), *predicted.scenes[1:]))
    listed.save(tmp_path / "video.json")
    for source, labels in ((path, ()), (tmp_path / "video.json", (path,))):
        with pytest.raises(BasslError, match=r"scenes.json: was not corrected; .*or use `accept_predictions=True`"):
            build_index(source, run=RunSettings(index), labels=labels)
        assert not index.exists()
    build_index(path, run=RunSettings(index), accept_predictions=True)
    named.save(path)
    build_index(path, run=RunSettings(index, overwrite=True))
    listed.save(path)  # labels that no model made
    build_index(path, run=RunSettings(index, overwrite=True))
