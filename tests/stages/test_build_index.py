"""From every kind of source to one index: small files in the true formats, and the real annotation files."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.errors import BasslError, DatasetError
from pipelines.options import with_options
from pipelines.stages.build_index import IndexSettings, SplitStatistics, build_index
from pipelines.stages.build_index.building import missing, statistics
from pipelines.stores.features import open_features
from pipelines.stores.index import NO_LABEL, IndexedVideo, read_index, write_index
from pipelines.stores.keyframes import read_keyframes
from pipelines.video.inputs import video_ids
from tests.datasets.annotation_files import BBC_SHOTS, put_bbc, put_chapters, put_npz, put_ovsd, scenes_json
from tests.datasets.movienet_files import put_keyframes, put_labels, put_list, put_movienet, put_shots, put_split
from tests.running import PUBLISHED
from tests.scored_things import put_csv, scene_list
from tests.small_stores import damaged, jpeg, put_store, read_all, refusal


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., IndexSettings]:
    return lambda **changes: with_options(
        IndexSettings,
        **{"output": tmp_path / "data" / "index.h5", "feature_folder": tmp_path / "data" / "features", **changes},
    )


Settings = Callable[..., IndexSettings]


# Sources


def test_a_folder_of_keyframe_stores_is_indexed(tmp_path: Path, settings: Settings) -> None:
    put_store(tmp_path / "stores" / "b.h5", 4, seed=1)
    put_store(tmp_path / "stores" / "a.h5", 2, seed=2)
    (tmp_path / "stores" / "._a.h5").write_bytes(b"what another system leaves behind")
    report = build_index([tmp_path / "stores"], settings())
    index = report.index
    assert index.video_ids == ("a", "b")
    assert index.first_row.tolist() == [0, 2, 6]
    assert index.keyframes == 3
    assert index.frames[:3].tolist() == [[0, 50], [50, 100], [0, 50]]
    assert index.seconds[1].tolist() == [2.0, 4.0]
    assert (index.label == NO_LABEL).all()
    assert index.frame_rates.tolist() == [25.0, 25.0]
    store = read_keyframes(tmp_path / "stores" / "b.h5")
    assert index.jpeg[2:, :-1].ravel().tolist() == store.jpeg_offsets[:-1].tolist()
    assert index.jpeg_crc32[2:].ravel().tolist() == store.jpeg_crc32.tolist()
    assert report.notes == ("2 of 2 videos have no labels: a, b", "2 of 2 videos have no split: a, b")
    assert report.matches == {}


def test_movienet_keyframes_are_indexed_in_place(tmp_path: Path, settings: Settings) -> None:
    root = put_movienet(tmp_path / "movienet")
    report = build_index([root], settings())
    index = report.index
    assert index.video_ids == ("tt01", "tt02", "tt03")
    assert index.splits == ("train", "test", "")
    assert index.label.tolist() == [1, -1, 0, 0, 1, 0, NO_LABEL, NO_LABEL]
    assert index.targets(index.rows_of(["train"])).tolist() == [1, 1, 0]
    assert index.frames[:3].tolist() == [[0, 49], [49, 330], [330, 500]]
    assert index.seconds[1].tolist() == [49 / 24, 330 / 24]
    assert index.frames[6:].tolist() == [[0, 1], [1, 2]]  # without a shot list a shot counts as a frame
    assert np.isnan(index.seconds[6:]).all()
    assert list(index.keyframe_sources) == [root / "240P_frames" / video for video in index.video_ids]
    assert report.notes == (
        "no video is in the split val",
        "1 of 3 videos have no labels: tt03",
        "1 of 3 videos have no split: tt03",
        "1 of 3 videos have no times in seconds: tt03",
    )
    assert read_all(KeyframeReader(index), [0, 1, 2]) == [
        [jpeg(0, shot, image) for image in range(3)] for shot in range(3)
    ]


def test_only_complete_leaves_out_and_counts_incomplete_videos(tmp_path: Path, settings: Settings) -> None:
    root = put_movienet(tmp_path / "movienet")
    for video in ("tt04", "tt05", "tt06"):
        put_shots(root, video, [(0, 48), (49, 329), (330, 499)])
        put_labels(root, [0, 1], video)
    put_labels(root, [0, 1], "tt07")  # labels of shots that nothing lists
    (put_keyframes(root, "tt05", 3, seed=0) / "shot_0001_img_2.jpg").unlink()
    put_keyframes(root, "tt06", 4, seed=0)
    refusal(lambda: build_index([root], settings()), error=BasslError)
    report = build_index([root], settings(only_complete=True))
    assert report.index.video_ids == ("tt01", "tt02", "tt03")
    first, *others = [note for note in report.notes if "left out" in note]
    assert first == "4 of 7 videos are left out, 1 of them because they have no keyframes or features"
    assert [note.split()[0] for note in others] == ["tt05", "tt06", "tt07"]
    assert "lacks shot_0001_img_2.jpg" in others[0]
    assert "has keyframes of 4 shots" in others[1]


def test_a_damaged_store_or_packed_video_is_left_out(tmp_path: Path, settings: Settings) -> None:
    put_store(tmp_path / "stores" / "a.h5")
    (tmp_path / "stores" / "b.h5").write_bytes(b"damaged")
    root = put_movienet(tmp_path / "movienet")
    (root / "240P_frames" / "tt02" / "shot_0000_img_0.jpg").write_bytes(b"no JPEG")
    sources = [tmp_path / "stores", root]
    report = build_index(sources, settings(only_complete=True, pack=tmp_path / "packed"))
    assert report.index.video_ids == ("a", "tt01", "tt03")
    assert sum("is left out" in note for note in report.notes) == 2


def test_damaged_features_are_left_out(tmp_path: Path, settings: Settings) -> None:
    put_npz(tmp_path / "vgg", "01")
    damage = put_npz(tmp_path / "vgg", "02")
    damage.write_bytes(b"damaged")
    refusal(lambda: build_index([tmp_path / "vgg"], settings()), damage, error=DatasetError)
    report = build_index([tmp_path / "vgg"], settings(only_complete=True))
    assert report.index.video_ids == ("vgg/01",)
    assert any(note.startswith(f"vgg/02 is left out: {damage}: not an .npz file") for note in report.notes)


def test_a_list_of_splits_may_name_videos_that_are_left_out(tmp_path: Path, settings: Settings) -> None:
    root, split = put_movienet(tmp_path / "movienet"), tmp_path / "split.json"
    put_shots(root, "tt04")
    split.write_text(json.dumps({"train": ["tt01"], "test": ["tt04"]}))
    report = build_index([root], settings(only_complete=True, split=split))
    assert report.index.splits == ("train", "", "")
    assert "no video is in the split test" in report.notes


def test_if_no_video_is_complete_the_first_reason_is_given(tmp_path: Path, settings: Settings) -> None:
    put_shots(tmp_path / "movienet")
    refusal(
        lambda: build_index([tmp_path / "movienet"], settings(only_complete=True)),
        "no video is complete",
        "has no keyframes",
        error=BasslError,
    )


def test_an_empty_drawn_split_is_reported(tmp_path: Path, settings: Settings) -> None:
    for name in "ab":
        put_store(tmp_path / "stores" / f"{name}.h5")
    drawn = build_index([tmp_path / "stores"], settings(split="0.5,0.1,0.4"))
    assert drawn.notes[0] == "no video is in the split val"
    assert "val" not in " ".join(build_index([tmp_path / "stores"], settings(split="0.5,0.5", overwrite=True)).notes)


def test_a_frame_rate_gives_times_to_videos_that_have_frames_only(tmp_path: Path, settings: Settings) -> None:
    put_npz(tmp_path / "vgg", "01")
    put_npz(tmp_path / "vgg", "02", frame_rate=np.float64(50))
    index = build_index([tmp_path / "vgg"], settings(frame_rate=20.0)).index
    assert index.frame_rates.tolist() == [20.0, 50.0]
    assert index.seconds[1].tolist() == [10 / 20, 25 / 20]
    assert index.seconds[4].tolist() == [10 / 50, 25 / 50]
    with pytest.raises(ValueError, match="frame_rate"):
        settings(frame_rate=0.0)


@pytest.mark.parametrize("part", ["scene318", "scene318/label318", "240P_frames"])
def test_a_part_of_movienet_is_refused_with_the_name_of_the_whole(
    tmp_path: Path, settings: Settings, part: str
) -> None:
    root = put_movienet(tmp_path / "movienet")
    refusal(lambda: build_index([root / part], settings()), f"name the whole, {root}", error=BasslError)


def test_a_folder_with_an_index_is_refused_with_the_folder_to_name(tmp_path: Path, settings: Settings) -> None:
    build_index([put_store(tmp_path / "data" / "keyframes" / "a.h5")], settings())
    again = settings(output=tmp_path / "again.h5")
    refusal(
        lambda: build_index([tmp_path / "data"], again), "holds an index", tmp_path / "data/keyframes", error=BasslError
    )


def test_the_keyframe_store_of_a_video_called_index_is_not_taken_for_an_index(
    tmp_path: Path, settings: Settings
) -> None:
    put_store(tmp_path / "stores" / "index.h5")
    put_store(tmp_path / "stores" / "other.h5")
    assert build_index([tmp_path / "stores"], settings()).index.video_ids == ("index", "other")


def test_two_stores_of_one_video_are_noted(tmp_path: Path, settings: Settings) -> None:
    store = put_store(tmp_path / "stores" / "a.h5")
    put_store(tmp_path / "stores" / "b.h5")
    shutil.copy(store, tmp_path / "stores" / "c.h5")
    (note,) = (note for note in build_index([tmp_path / "stores"], settings()).notes if "of one video" in note)
    assert note.startswith("a and c are of one video")


def test_movienet_is_read_from_its_annotation_lists(tmp_path: Path, settings: Settings) -> None:
    put_list(tmp_path, "train", [0, 1, 0], "tt05")
    put_list(tmp_path, "val", [1, 0], "tt06")
    index = build_index([tmp_path], settings()).index
    assert index.splits == ("train", "val")
    assert index.label.tolist() == [0, 1, 0, 1, 0]
    assert index.keyframes == 0


def test_movienet_keyframes_can_be_packed_into_stores(tmp_path: Path, settings: Settings) -> None:
    root, stores = put_movienet(tmp_path / "movienet"), tmp_path / "data" / "keyframes"
    index = build_index([root], settings(pack=stores)).index
    assert sorted(path.name for path in stores.iterdir()) == ["tt01.h5", "tt02.h5", "tt03.h5"]
    assert index.splits == ("train", "test", "")
    assert index.label.tolist() == [1, -1, 0, 0, 1, 0, NO_LABEL, NO_LABEL]
    assert np.isnan(index.seconds[6:]).all()  # the store must have times, the index does not believe them
    store = read_keyframes(stores / "tt01.h5")
    assert store.frames.tolist() == [[0, 49], [49, 330], [330, 500]]
    assert store.keyframes[1].tolist() == [119, 189, 259]  # what the shot list says
    shutil.rmtree(root)
    assert read_all(KeyframeReader(index), [3, 3, 3, 4, 5]) == [
        [jpeg(1, shot, image) for image in range(3)] for shot in (0, 0, 0, 1, 2)
    ]


def test_packed_stores_that_match_are_kept(tmp_path: Path, settings: Settings) -> None:
    root, stores = put_movienet(tmp_path / "movienet"), tmp_path / "keyframes"
    build_index([root], settings(pack=stores))
    before = {path: path.stat().st_mtime_ns for path in stores.iterdir()}
    (tmp_path / "data" / "index.h5").unlink()
    build_index([root], settings(pack=stores))
    assert {path: path.stat().st_mtime_ns for path in stores.iterdir()} == before
    build_index([root], settings(pack=stores, overwrite=True))
    assert all(path.stat().st_mtime_ns != before[path] for path in stores.iterdir())


@pytest.mark.parametrize(("shots", "images"), [(4, 3), (3, 2), (3, 3)])
def test_a_packed_store_with_other_shots_is_refused(
    tmp_path: Path, settings: Settings, shots: int, images: int
) -> None:
    root = put_movienet(tmp_path / "movienet")
    put_store(tmp_path / "keyframes" / "tt01.h5", shots, images)
    build = lambda: build_index([root], settings(pack=tmp_path / "keyframes"))  # noqa: E731
    refusal(build, tmp_path / "keyframes" / "tt01.h5", "other shots or keyframes", "tt01.txt", error=DatasetError)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "not a JPEG"), (b"GIF89a", "not a JPEG"), (jpeg(1)[:-30], "truncated JPEG"), (None, "no such file")],
)
def test_keyframes_that_cannot_be_packed_are_refused(
    tmp_path: Path, settings: Settings, content: bytes | None, words: str
) -> None:
    root = put_movienet(tmp_path / "movienet")
    bad = root / "240P_frames" / "tt02" / "shot_0001_img_1.jpg"
    bad.unlink()
    if content is None:
        bad.symlink_to(tmp_path / "nowhere.jpg")
    else:
        bad.write_bytes(content)
    refusal(lambda: build_index([root], settings(pack=tmp_path / "k")), bad, words, error=DatasetError)
    assert not (tmp_path / "k" / "tt02.h5").exists()


def test_bbc_is_indexed(tmp_path: Path, settings: Settings) -> None:
    put_bbc(tmp_path, BBC_SHOTS, "0,1,3,4")
    put_bbc(tmp_path, BBC_SHOTS, "0,2,4", annotator=1)
    report = build_index([tmp_path], settings())
    assert report.index.video_ids == ("bbc_01",)
    assert report.index.label.tolist() == [1, 0, 1, 0]
    assert report.index.seconds[1].tolist() == [10 / 25, 20 / 25]
    assert report.notes[0] == "1 of 1 videos have no keyframes: bbc_01"
    index = build_index([tmp_path], settings(annotator=1, overwrite=True)).index
    assert index.label.tolist() == [0, 1, 0, 0]
    assert index.settings["annotator"] == 1


def test_ovsd_is_indexed(tmp_path: Path, settings: Settings) -> None:
    put_ovsd(tmp_path, "0\t110\n111\t270\n271\t399")
    report = build_index([tmp_path], settings())
    assert report.index.video_ids == ("02",)
    assert report.index.label.tolist() == [1, 0, 1, 0]
    assert "1 of 1 videos have no times in seconds: 02" in report.notes


def test_a_scenes_json_is_indexed(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "video.json").write_text(json.dumps(scenes_json()))
    index = build_index([tmp_path / "video.json"], settings()).index
    assert index.video_ids == ("video",)
    assert index.label.tolist() == [0, 1, 0, 0, 0]
    assert index.frames[1].tolist() == [50, 100]
    assert index.seconds[1].tolist() == [2.0, 4.0]


def test_npz_features_are_written_into_a_store(tmp_path: Path, settings: Settings) -> None:
    put_npz(tmp_path / "bbc", "01")
    put_npz(tmp_path / "bbc", "02", scene_end=np.array([1, 0, 1], np.uint8))
    index = build_index([tmp_path / "bbc"], settings()).index
    assert index.video_ids == ("bbc/01", "bbc/02")
    assert index.label.tolist() == [0, 1, 0, 1, 0, 0]  # the video's end is no scene end
    store = tmp_path / "data" / "features" / "bbc-4d.h5"
    assert index.features == {"bbc-4d": store}
    found = open_features(store)
    assert found.encoder == "bbc-4d"
    assert list(found.videos) == ["bbc/01", "bbc/02"]
    np.testing.assert_array_equal(found.videos["bbc/02"], np.arange(12).reshape(3, 4) + 2)


def test_folders_of_features_with_one_name_share_a_store(tmp_path: Path, settings: Settings) -> None:
    put_npz(tmp_path / "x" / "vgg" / "one", "01")
    put_npz(tmp_path / "y" / "vgg" / "other", "01")
    index = build_index([tmp_path / "x" / "vgg", tmp_path / "y" / "vgg"], settings()).index
    [store] = index.features.values()
    assert tuple(open_features(store).videos) == index.video_ids == ("one/01", "other/01")


def test_features_in_a_linked_folder_are_found(tmp_path: Path, settings: Settings) -> None:
    put_npz(tmp_path / "elsewhere", "01")
    (tmp_path / "vgg").mkdir()
    (tmp_path / "vgg" / "link").symlink_to(tmp_path / "elsewhere")
    assert build_index([tmp_path / "vgg"], settings()).index.video_ids == ("elsewhere/01",)


def test_features_of_different_widths_in_one_folder_are_refused(tmp_path: Path, settings: Settings) -> None:
    put_npz(tmp_path / "vgg", "01", size=4)
    put_npz(tmp_path / "vgg", "02", size=5)
    build = lambda: build_index([tmp_path / "vgg"], settings())  # noqa: E731
    refusal(build, "vgg-4d.h5", "4 float32 and 5 float32", error=BasslError)
    assert not settings().run.output.exists()


def test_a_store_of_other_features_is_replaced_only_with_overwrite(tmp_path: Path, settings: Settings) -> None:
    first, second = tmp_path / "one" / "bbc", tmp_path / "two" / "bbc"
    put_npz(first)
    put_npz(second, features=np.ones((3, 4), np.float32))
    [store] = build_index([first], settings()).index.features.values()
    before = store.read_bytes()
    other = settings(output=tmp_path / "data" / "other.h5")
    refusal(lambda: build_index([second], other), store, "other features", "--feature-folder", error=BasslError)
    assert store.read_bytes() == before
    assert not other.run.output.exists()
    build_index([first], other)
    build_index([second], settings(output=other.run.output, overwrite=True))
    np.testing.assert_array_equal(open_features(store).videos["bbc/01"], np.ones((3, 4)))


def test_a_folder_of_features_may_contain_other_files(tmp_path: Path, settings: Settings) -> None:
    put_npz(tmp_path / "f" / "bbc", "01")
    (tmp_path / "f" / "titles.json").write_text("{}")
    assert build_index([tmp_path / "f"], settings()).index.video_ids == ("bbc/01",)


# Labels of others on our shots


def test_scenes_of_a_csv_are_matched_to_the_shots_of_the_store(tmp_path: Path, settings: Settings) -> None:
    put_store(tmp_path / "stores" / "video.h5", 5)
    put_store(tmp_path / "stores" / "without_labels.h5", 3)
    put_csv(tmp_path / "labels" / "video.csv", 0, 2.2, 6.9, 8.6, 10)
    put_csv(tmp_path / "labels" / "nobody.csv", 0, 3)
    report = build_index([tmp_path / "stores"], settings(labels=(tmp_path / "labels",), tolerance=0.5))
    assert report.index.label.tolist() == [1, 0, 0, 0, 0, NO_LABEL, NO_LABEL, NO_LABEL]
    match = report.matches["video"]
    assert (match.scene_ends, match.matched, match.at_video_end, match.unmatched) == (3, 1, 1, (6.9, 8.6))
    assert match.mean_distance == pytest.approx(0.2)
    assert "1 labelled video is not among the sources: nobody" in report.notes
    assert "1 of 2 videos have no labels: without_labels" in report.notes
    more = build_index([tmp_path / "stores"], settings(labels=(tmp_path / "labels",), tolerance=1.0, overwrite=True))
    assert more.matches["video"].matched == 3
    assert more.index.label.tolist()[:5] == [1, 0, 1, 1, 0]


def test_labels_with_the_name_of_the_video_match_its_store(tmp_path: Path, settings: Settings) -> None:
    videos = [tmp_path / name for name in ("1999/a.mp4", "2001/a.mp4", "with space.mp4", "3.45\u202fPM.mov")]
    for name in video_ids(videos):
        put_store(tmp_path / "stores" / f"{name}.h5", shots=10)
    labels = tuple(put_csv(video.with_suffix(".csv"), 0, 4, 10) for video in videos)
    report = build_index([tmp_path / "stores"], settings(labels=labels, tolerance=math.inf))
    assert sorted(report.matches) == sorted(video_ids(videos)) == ["1999_a", "2001_a", "3.45_PM", "with_space"]
    assert not any("not among the sources" in note for note in report.notes)


def test_labels_match_a_video_whose_name_ends_like_a_scene_list(tmp_path: Path, settings: Settings) -> None:
    store = put_store(tmp_path / "stores" / "behind_the_scenes.h5")
    labels = put_csv(tmp_path / "behind_the_scenes.csv", 0, 4, 10)
    report = build_index([str(store)], settings(labels=(labels,)))
    assert report.index.label.tolist() == [0, 1, 0, 0, 0]


def test_movienet_labels_on_stores_bring_their_splits(tmp_path: Path, settings: Settings) -> None:
    put_shots(tmp_path / "m", "tt01", [(0, 23), (24, 47), (48, 143), (144, 239)])
    put_labels(tmp_path / "m", [0, 1, -1], "tt01")
    put_split(tmp_path / "m", val=["tt01"])
    put_store(tmp_path / "stores" / "tt01.h5", 5)
    # Frames are those of the same file: frames 48 and 144 of 50 a shot.
    report = build_index([tmp_path / "stores"], settings(labels=(tmp_path / "m",)))
    assert report.index.splits == ("val",)
    assert report.index.label.tolist() == [1, 0, -1, 0, 0]
    assert report.matches["tt01"].matched == 2


def test_the_last_chapter_without_an_end_lasts_to_the_end_of_the_video(tmp_path: Path, settings: Settings) -> None:
    store = put_store(tmp_path / "stores" / "video.h5", 5)
    labels = put_chapters(tmp_path / "video.chapters.xml", 0, 2, 6)
    report = build_index([store], settings(labels=(labels,)))
    assert report.index.label.tolist() == [1, 0, 1, 0, 0]
    match = report.matches["video"]
    assert (match.scene_ends, match.matched, match.at_video_end) == (2, 2, 1)


def test_timecodes_with_frame_numbers_use_the_given_frame_rate(tmp_path: Path, settings: Settings) -> None:
    store, labels = put_store(tmp_path / "stores" / "video.h5", 5), tmp_path / "video.csv"
    labels.write_text("start,end\n00:00:00:00,00:00:05:24\n00:00:05:24,00:00:10:00\n")
    report = build_index([store], settings(labels=(labels,), frame_rate=25.0))
    assert report.index.label.tolist() == [0, 0, 1, 0, 0]
    assert report.matches["video"].mean_distance == pytest.approx(0.04)


def test_for_a_part_of_a_video_labels_outside_it_are_reported_and_its_own_hours_counted(
    tmp_path: Path, settings: Settings
) -> None:
    part = scene_list((3600, 4500, 5400, 7200), [0], (0.9, 0.2, 0.3))
    replace(part, settings={"start": 3600}).save(tmp_path / "video.json")
    labels = put_csv(tmp_path / "labels" / "video.csv", 0, 1800, 5400, 8000, 9000)
    report = build_index([tmp_path / "video.json"], settings(labels=(labels,)))
    assert report.index.label.tolist() == [0, 1, 0]
    match = report.matches["video"]
    assert (match.scene_ends, match.matched, match.outside) == (1, 1, 3)
    assert "video: 3 of 4 labelled scene ends are outside its shots" in report.notes
    assert statistics(report.index)[0].hours == 1.0


def test_labels_of_one_video_from_two_files_are_refused(tmp_path: Path, settings: Settings) -> None:
    put_store(tmp_path / "video.h5")
    one, other = put_csv(tmp_path / "x" / "video.csv", 0, 4), put_csv(tmp_path / "y" / "video.csv", 0, 4)
    refusal(lambda: build_index([tmp_path / "video.h5"], settings(labels=(one, other))), one, other, error=DatasetError)


def test_labels_that_cannot_be_matched_to_shots_are_refused(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "ovsd").mkdir()
    put_ovsd(tmp_path / "ovsd", "0\t110\n111\t270\n271\t399")
    labels = put_csv(tmp_path / "02.csv", 0, 4)
    build = lambda: build_index([tmp_path / "ovsd"], settings(labels=(labels,)))  # noqa: E731
    refusal(build, "02_scenes.txt", "no times in seconds", labels, error=DatasetError)


def test_a_label_file_without_shots_is_refused_with_a_hint_at_labels_option(tmp_path: Path, settings: Settings) -> None:
    labels = put_csv(tmp_path / "video.csv", 0, 4)
    refusal(lambda: build_index([labels], settings()), labels, "--labels", error=DatasetError)


# Splits


def drawn(tmp_path: Path, videos: int, **changes: Any) -> tuple[str, ...]:
    root = tmp_path / f"bbc{videos}"
    if not root.exists():
        for number in range(videos):
            put_bbc(root, BBC_SHOTS, "0,4", f"v{number:03d}")
    output = tmp_path / "drawn.h5"
    return build_index([root], output=output, overwrite=True, **changes).index.splits


@pytest.mark.parametrize("videos", [1, 2, 3, 7, 10, 31])
@pytest.mark.parametrize("shares", [(0.6, 0.2, 0.2), (0.5, 0.5), (1 / 3, 1 / 3, 1 / 3), (1.0, 0.0), (0.0, 0.1, 0.9)])
def test_split_shares_are_met_up_to_rounding(tmp_path: Path, videos: int, shares: tuple[float, ...]) -> None:
    splits = drawn(tmp_path, videos, split=shares)
    names = ("train", "val", "test") if len(shares) == 3 else ("train", "test")
    assert set(splits) <= set(names)
    for name, share in zip(names, shares, strict=True):
        assert abs(splits.count(name) - share * videos) <= 1
        assert share > 0 or name not in splits


def test_the_split_depends_on_the_seed(tmp_path: Path) -> None:
    one = drawn(tmp_path, 31, split=(0.6, 0.2, 0.2), seed=3)
    assert drawn(tmp_path, 31, split=(0.6, 0.2, 0.2), seed=3) == one
    assert drawn(tmp_path, 31, split=(0.6, 0.2, 0.2), seed=4) != one
    assert drawn(tmp_path, 31) == ("",) * 31


def test_the_split_does_not_depend_on_the_order_of_sources(tmp_path: Path, settings: Settings) -> None:
    stores = [put_store(tmp_path / f"{name}.h5", 1) for name in "abcdefgh"]
    one = build_index(stores, settings(split=(0.5, 0.5))).index.splits
    other = build_index(stores[::-1], settings(split=(0.5, 0.5), overwrite=True)).index.splits
    assert one == other


def test_a_drawn_split_replaces_the_splits_of_the_source(tmp_path: Path, settings: Settings) -> None:
    root = put_movienet(tmp_path / "m")
    assert build_index([root], settings()).index.splits == ("train", "test", "")
    index = build_index([root], settings(split=(0.0, 1.0), overwrite=True)).index
    assert index.splits == ("test", "test", "test")
    assert index.settings["split"] == [0.0, 1.0]


@pytest.mark.parametrize(
    "split", [(), (1.0,), (0.5, 0.6), (0.5, 0.4), (1.5, -0.5), (0.25,) * 4, (float("nan"), 1.0), (float("inf"), 0.0)]
)
def test_invalid_split_shares_are_refused(tmp_path: Path, settings: Settings, split: tuple[float, ...]) -> None:
    refusal(lambda: build_index([tmp_path], settings(split=split)), "0.6,0.2,0.2", error=ValueError)


def test_a_json_file_lists_the_videos_of_each_split(tmp_path: Path, settings: Settings) -> None:
    stores = [put_store(tmp_path / f"{name}.h5", 1) for name in "abcd"]
    listed = tmp_path / "splits.json"
    listed.write_text('{"train": ["d", "a"], "test": ["b"]}')
    index = build_index(stores, settings(split=listed)).index
    assert index.splits == ("train", "test", "", "train")
    assert index.settings["split"] == str(listed)
    for text, word in (
        ('{"train": ["a"], "test": ["a"]}', "two splits"),
        ('{"train": ["x"]}', "names x"),
        ('["a"]', "for each split"),
        ('{"train": "a"}', "for each split"),
        ("{", str(listed)),
    ):
        listed.write_text(text)
        refusal(lambda: build_index(stores, settings(split=listed, overwrite=True)), word, error=BasslError)


# Statistics


def video(name: str, label: list[int], split: str = "", seconds: bool = True) -> IndexedVideo:
    starts = np.arange(len(label))[:, None]
    times = 1800.0 * (starts + np.array([0, 1]))
    return IndexedVideo(
        name,
        name,
        10 * starts + np.array([0, 10]),
        times if seconds else times * np.nan,
        np.array(label, np.int8),
        split,
    )


def test_statistics_by_split(tmp_path: Path) -> None:
    videos = [
        video("a", [0, 1, -1, 0], "train"),
        video("b", [NO_LABEL] * 2, "train"),
        video("c", [0, 0, 0], "test", seconds=False),
        video("d", [1, 0], "val"),
        video("e", [NO_LABEL], "pretrain"),
        video("f", [NO_LABEL]),
    ]
    write_index(tmp_path / "i.h5", videos, {})
    assert statistics(read_index(tmp_path / "i.h5")) == [
        SplitStatistics("train", videos=2, labelled=1, scenes=3, shots=6, hours=3.0),
        SplitStatistics("val", videos=1, labelled=1, scenes=2, shots=2, hours=1.0),
        SplitStatistics("test", videos=1, labelled=1, scenes=1, shots=3, hours=None),
        SplitStatistics("none", videos=1, labelled=0, scenes=0, shots=1, hours=0.5),
        SplitStatistics("pretrain", videos=1, labelled=0, scenes=0, shots=1, hours=0.5),
        SplitStatistics("all", videos=6, labelled=3, scenes=6, shots=13, hours=None),
    ]


def test_statistics_of_a_single_split_have_no_total(tmp_path: Path) -> None:
    write_index(tmp_path / "i.h5", [video("a", [1, 0])], {})
    assert statistics(read_index(tmp_path / "i.h5")) == [SplitStatistics("none", 1, 1, 2, 2, 1.0)]


# What is missing, and what is refused


def test_missing_keyframe_and_feature_files_are_reported(tmp_path: Path, settings: Settings) -> None:
    store = put_store(tmp_path / "stores" / "a.h5")
    put_npz(tmp_path / "vgg", "01")
    index = build_index([store, tmp_path / "vgg"], settings()).index
    store.unlink()
    (tmp_path / "data" / "features" / "vgg-4d.h5").unlink()
    notes = missing(index)
    assert "1 of 2 videos have keyframes that are not there any more: a" in notes
    assert any(note.startswith("features vgg-4d are not there any more: ") for note in notes)


def test_an_existing_index_is_replaced_only_with_overwrite(tmp_path: Path, settings: Settings) -> None:
    store = put_store(tmp_path / "a.h5")
    build_index([store], settings())
    before = settings().run.output.read_bytes()
    refusal(lambda: build_index([store], settings()), settings().run.output, "--overwrite", error=BasslError)
    build_index([store], settings(overwrite=True))
    assert settings().run.output.read_bytes() == before


def test_a_failure_keeps_the_old_index(tmp_path: Path, settings: Settings) -> None:
    build_index([put_store(tmp_path / "a.h5")], settings())
    before = settings().run.output.read_bytes()
    put_npz(tmp_path / "vgg", "01", shots=np.array([[0, 10], [10, 25], [2**40, 2**40 + 1]], np.int64))
    build = lambda: build_index([tmp_path / "vgg"], settings(overwrite=True))  # noqa: E731
    refusal(build, "shot 2 of vgg/01", "outside the valid range", error=BasslError)
    assert settings().run.output.read_bytes() == before


def test_the_same_video_in_two_sources_is_refused(tmp_path: Path, settings: Settings) -> None:
    one, other = put_store(tmp_path / "x" / "video.h5"), put_store(tmp_path / "y" / "video.h5")
    refusal(lambda: build_index([one, other], settings()), "'video'", one, other, error=BasslError)
    assert not settings().run.output.exists()


def test_a_refused_index_keeps_the_existing_features(tmp_path: Path, settings: Settings) -> None:
    one, other = tmp_path / "x" / "vgg", tmp_path / "y" / "vgg"
    put_npz(one)
    put_npz(other, features=np.ones((3, 4), np.float32))
    [store] = build_index([one], settings()).index.features.values()
    before = store.read_bytes()
    refusal(lambda: build_index([one, other], settings(overwrite=True)), "'vgg/01'", error=BasslError)
    assert store.read_bytes() == before


def test_stores_with_different_numbers_of_keyframes_are_refused(tmp_path: Path, settings: Settings) -> None:
    one, other = put_store(tmp_path / "one.h5", images=1), put_store(tmp_path / "three.h5", images=3)
    refusal(lambda: build_index([one, other], settings()), f"1 ({one}), 3 ({other})", error=BasslError)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tolerance": -1.0}, "tolerance"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"doubtful": "maybe"}, "'maybe'"),
        ({"split": "a,b"}, "'a,b'"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_invalid_settings_are_refused(settings: Settings, changes: dict[str, Any], words: str) -> None:
    refusal(lambda: settings(**changes), words, error=ValueError)


def test_split_shares_can_be_given_as_text_or_as_a_list(settings: Settings) -> None:
    assert settings(split=[0.6, 0.2, 0.2]).split == (0.6, 0.2, 0.2)
    assert settings(split="0.6,0.2,0.2").split == (0.6, 0.2, 0.2)
    assert settings(split="splits.json").split == Path("splits.json")


def test_missing_label_files_are_refused(tmp_path: Path, settings: Settings) -> None:
    store = put_store(tmp_path / "a.h5")
    refusal(
        lambda: build_index([store], settings(labels=(Path("nowhere.csv"),))),
        "nowhere.csv: no such file or folder",
        error=BasslError,
    )


def test_sources_of_no_known_kind_are_refused(tmp_path: Path, settings: Settings) -> None:
    empty, odd = tmp_path / "empty", tmp_path / "notes.md"
    empty.mkdir()
    odd.write_text("# Notes")
    refusal(lambda: build_index([], settings()), "nothing to index", error=BasslError)
    refusal(lambda: build_index([empty], settings()), empty, "nothing in a supported format", error=DatasetError)
    refusal(lambda: build_index([odd], settings()), odd, "unsupported format", error=DatasetError)
    refusal(lambda: build_index([tmp_path / "no"], settings()), tmp_path / "no", "no such file", error=DatasetError)


def test_videos_are_refused_with_the_command_that_makes_their_keyframes(
    tmp_path: Path, settings: Settings, video: Path
) -> None:
    (tmp_path / "videos").mkdir()
    shutil.copy(video, tmp_path / "videos")
    for source in (video, tmp_path / "videos"):
        build = partial(build_index, [source], settings())
        refusal(build, source, "for videos, run `bassl extract-keyframes` first", error=DatasetError)


def test_an_index_is_not_accepted_as_a_keyframe_store(tmp_path: Path, settings: Settings) -> None:
    build_index([put_store(tmp_path / "a.h5")], settings())
    again = settings(output=tmp_path / "again.h5")
    refusal(lambda: build_index([settings().run.output], again), "bassl.index", "bassl.keyframes", error=BasslError)


def npz_bytes() -> bytes:
    buffer = BytesIO()
    rng = np.random.default_rng(0)
    np.savez_compressed(
        buffer,
        features=rng.normal(size=(6, 8)).astype(np.float16),
        shots=np.arange(6)[:, None] * 10 + np.array([0, 10]),
        scene_end=np.array([0, 1, 0, 0, 1, 0], np.uint8),
    )
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["npz", "store"])
def test_damaged_sources_are_refused_or_read_consistently(tmp_path: Path, settings: Settings, kind: str) -> None:
    """Some bytes of a zip archive are not used; the bytes of a keyframe in a store are checked when it is read."""
    path = tmp_path / "vgg" / "01.npz" if kind == "npz" else tmp_path / "stores" / "a.h5"
    path.parent.mkdir()
    content = npz_bytes() if kind == "npz" else put_store(path).read_bytes()
    path.write_bytes(content)
    whole = build_index([path.parent], settings()).index
    refused = 0
    for case, changed in damaged(content, flips=120, cuts=40, seed=2):
        path.write_bytes(changed)
        try:
            index = build_index([path.parent], settings(overwrite=True)).index
        except BasslError as error:
            refused += str(path) in str(error) and "\n" not in str(error)
            continue
        assert case.startswith("changed"), case
        assert index.label.tolist() == whole.label.tolist(), case
        assert index.frames.tolist() == whole.frames.tolist(), case
        assert index.jpeg.tolist() == whole.jpeg.tolist(), case
        if kind == "store" and changed != content:
            reader = KeyframeReader(index)
            refusal(lambda reader=reader: read_all(reader, range(5)), path, "damaged")  # type: ignore[misc]
            refused += 1
    assert refused >= (120 if kind == "npz" else 160)


# The real thing


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the real annotation files are not here")
@pytest.mark.parametrize(("name", "videos", "shots", "ends"), [("bbc", 11, 4855, 557), ("ovsd", 14, 2960, 259)])
def test_the_published_annotations_are_indexed(
    settings: Settings, name: str, videos: int, shots: int, ends: int
) -> None:
    index = build_index([PUBLISHED / "annotations" / name], settings()).index
    assert statistics(index) == [
        SplitStatistics("none", videos, videos, ends + videos, shots, statistics(index)[0].hours)
    ]
    assert int(index.targets(index.rows_of(labelled=True)).sum()) == ends


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the real features are not here")
def test_the_published_features_are_indexed(settings: Settings) -> None:
    sources = [PUBLISHED / "features" / name for name in ("bbc", "ovsd")]
    index = build_index(sources, settings(split=(0.6, 0.2, 0.2))).index
    assert len(index.video_ids) == 25
    assert len(index.label) == 4855 + 2960
    assert int(index.targets(index.rows_of()).sum()) == 557 + 259
    assert [index.splits.count(name) for name in ("train", "val", "test")] == [15, 5, 5]
    features = {name: rows for store in index.features.values() for name, rows in open_features(store).videos.items()}
    assert [len(features[name]) for name in index.video_ids] == np.diff(index.first_row).tolist()
