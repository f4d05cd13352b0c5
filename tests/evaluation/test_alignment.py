"""Alignment of a prediction and a truth with different shots: every scene end counts once."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pipelines.datasets import VideoAnnotation
from pipelines.errors import DatasetError
from pipelines.evaluation.alignment import align
from pipelines.evaluation.bootstrap import evaluate, measure
from tests.small_stores import refusal

HERE, THERE = Path("guess.json"), Path("truth.csv")
RATE = 25.0


def shots(*cuts: float) -> np.ndarray:
    return np.stack([cuts[:-1], cuts[1:]], axis=1).astype(float)


def predicted(times: np.ndarray, ends: list[int], scores: list[float] | None = None) -> VideoAnnotation:
    scene_end = np.zeros(len(times), np.int8)
    scene_end[ends] = 1
    return VideoAnnotation(
        "video",
        HERE,
        shots=np.round(times * RATE).astype(np.int64),
        shots_seconds=times,
        scene_end=scene_end,
        frame_rate=RATE,
        scores=None if scores is None else np.array(scores),
    )


def listed(*cuts: float, source: Path = THERE) -> VideoAnnotation:
    return VideoAnnotation("video", source, scenes_seconds=shots(*cuts))


GUESS = predicted(shots(0, 10, 20, 30, 40, 50), [1, 3], [0.1, 0.9, 0.2, 0.6, 0.3])


SHORT = (0, 20, 49.5, 50)
GAP = VideoAnnotation("video", THERE, scenes_seconds=np.array([[0.0, 17], [23, 40], [40, 50]]))
OTHER_GAP = VideoAnnotation("video", THERE, scenes_seconds=np.array([[0.0, 23], [26, 40], [40, 50]]))
OWN_SCENES = replace(GUESS, source=THERE, scene_end=None, scores=None, scenes_seconds=shots(0, 10, 40, 50))
ALONE = predicted(shots(0, 10), [], [0.7])


CASES: dict[str, tuple[VideoAnnotation, VideoAnnotation, float, list[int], list[int]]] = {
    "an end just before the video's, predicted": (
        *(listed(*SHORT, source=HERE), listed(0, 20, 50), 1.0, [1, 0, 0], [1, 1, 0]),
    ),
    "an end just before the video's, true": (GUESS, listed(*SHORT), 1.0, [0, 1, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0]),
    "a truth that ends just the tolerance later": (
        *(GUESS, listed(0, 20, 49.5, 51), 1.0, [0, 1, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0]),
    ),
    "a truth that ends much earlier": (GUESS, listed(0, 20, 40), 1.0, [0, 1, 0, 1, 0], [0, 1, 0, 1, 0]),
    "a truth that ends just the tolerance earlier": (
        *(predicted(shots(0, 20, 49, 50), [0]), listed(0, 20, 49), 1.0, [1, 0, 0], [1, 0, 0]),
    ),
    "scenes of a truth label its own shots": (GUESS, OWN_SCENES, 0.0, [1, 0, 0, 1, 0], [0, 1, 0, 1, 0]),
    "anywhere in a gap": (GUESS, GAP, 0.0, [0, 1, 0, 1, 0], [0, 1, 0, 1, 0]),
    "a gap that no shot end is in or near": (GUESS, OTHER_GAP, 1.0, [0, 0, 1, 0, 1, 0], [0, 1, 0, 0, 1, 0]),
    "a truth of a longer video": (GUESS, listed(0, 20, 40, 70, 90), 1.0, [0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 0, 0]),
    "one shot": (ALONE, listed(0, 10), 1.0, [0], [0]),
    "one shot, two true scenes": (ALONE, listed(0, 4, 10), 1.0, [1, 0], [0, 0]),
}


@pytest.mark.parametrize("case", CASES)
def test_scene_ends_become_labels_and_decisions_of_common_shots(case: str) -> None:
    guess, truth, tolerance, labels, decisions = CASES[case]
    video = align(guess, truth, tolerance).video
    assert (video.labels.tolist(), video.decisions(0.5).tolist()) == (labels, decisions)


def test_lists_with_the_same_shots_are_compared_shot_by_shot() -> None:
    truth = replace(GUESS, source=THERE, scene_end=np.array([0, 1, 1, 0, 0], np.int8), scores=None)
    result = align(GUESS, truth, tolerance=0.0)
    assert (result.basis, result.truth, result.prediction) == ("same shots", None, None)
    video = result.video
    assert video.labels.tolist() == [0, 1, 1, 0, 0]
    assert video.decisions(0.5).tolist() == [False, True, False, True, False]
    assert video.scores.tolist() == [0.1, 0.9, 0.2, 0.6, 0.3]
    assert video.seconds is not None
    assert video.shots.dtype == np.int64


def test_a_true_end_without_a_shot_end_is_a_miss() -> None:
    result = align(GUESS, listed(0, 20, 25, 40, 50), tolerance=1.0)
    video = result.video
    assert video.shots.tolist() == [[0, 10], [10, 20], [20, 25], [25, 30], [30, 40], [40, 50]]
    assert video.labels.tolist() == [0, 1, 1, 0, 1, 0]
    assert video.decisions(0.5).tolist() == [False, True, False, False, True, False]
    assert video.scores.tolist() == [0.1, 0.9, 0.0, 0.2, 0.6, 0.3]
    assert (result.basis, result.truth.unmatched) == ("shots of the prediction", (25.0,))
    values = evaluate([video])
    assert (values["precision"], values["recall"]) == (1.0, pytest.approx(2 / 3))


def test_a_predicted_end_without_a_shot_end_is_a_false_alarm() -> None:
    truth = replace(GUESS, source=THERE, scores=None)
    result = align(listed(0, 20.5, 33, 50, source=HERE), truth, tolerance=1.0)
    assert result.basis == "shots of the truth"
    video = result.video
    assert video.labels.tolist() == [0, 1, 0, 0, 1, 0]
    assert video.decisions(0.5).tolist() == [False, True, False, True, False, False]
    assert np.isnan(video.scores).all()
    assert (result.prediction.matched, result.prediction.unmatched) == (1, (33.0,))
    values = measure([video])
    assert (values["precision"].pooled, values["recall"].pooled) == (0.5, 0.5)
    assert values["ap"].value is None


@given(st.integers(15 * 4, 55 * 4), st.integers(0, 19))
def test_the_end_of_a_list_within_the_tolerance_of_the_videos_or_far_from_all_shot_ends_is_no_scene_end(
    quarters: int, tolerance: int
) -> None:
    end, near = quarters / 4, tolerance / 4
    labels = align(GUESS, listed(0, 10, end), tolerance=near).video.labels
    assert labels.tolist() == [1, *(abs(end - shot_end) <= near for shot_end in (20, 30, 40)), 0]


def test_boundary_f1_uses_the_original_times_of_scene_ends() -> None:
    # Put on shots, 20.9 and 20 are one; on the time line they are 0.9 seconds apart.
    result = align(GUESS, listed(0, 20.9, 40, 50), tolerance=1.0)
    assert measure([result.video], within=1.0)["boundary_f1"].pooled == 1.0
    assert measure([result.video], within=0.5)["boundary_f1"].pooled == 0.5
    result = align(listed(0, 20.9, 40, 50, source=HERE), replace(GUESS, source=THERE), tolerance=1.0)
    assert measure([result.video], within=0.5)["boundary_f1"].pooled == 0.5


PART = replace(predicted(shots(105, 110, 120, 130, 140, 145), [1, 3], [0.1, 0.9, 0.2, 0.6, 0.3]), part=True)
"""Of a video of 200 seconds: the part from 105 to 145 seconds, with scene ends at 120 and 140."""
WHOLE = (0, 40, 104.8, 120.3, 130.1, 145.4, 170, 200)
"""True scenes; two of their ends are the ends of the part."""


def in_frames(*cuts: float) -> VideoAnnotation:
    return VideoAnnotation("video", THERE, scenes_frames=np.round(shots(*cuts) * RATE).astype(np.int64))


def as_shots(*cuts: float) -> VideoAnnotation:
    """Shots of five seconds, of which some end scenes."""
    times = shots(*sorted({*cuts, *range(0, 201, 5)}))
    return replace(predicted(times, [i for i, end in enumerate(times[:-1, 1]) if end in cuts]), source=THERE)


@pytest.mark.parametrize("truth_of", [listed, in_frames, as_shots])
def test_for_a_part_of_a_video_only_scene_ends_within_it_count(truth_of: Callable[..., VideoAnnotation]) -> None:
    result = align(PART, truth_of(*WHOLE), tolerance=1.0)
    video = result.video
    assert (result.basis, result.part) == ("shots of the prediction", (105.0, 145.0))
    assert video.seconds.tolist() == PART.shots_seconds.tolist()
    assert video.labels.tolist() == [0, 1, 1, 0, 0]
    assert video.decisions(0.5).tolist() == [False, True, False, True, False]
    values = measure([video], within=1.0)
    assert (values["precision"].pooled, values["recall"].pooled, values["boundary_f1"].pooled) == (0.5, 0.5, 0.5)


def test_a_part_with_correct_scenes_has_perfect_scores() -> None:
    for start, end in ((0.0, 200.0), (90.0, 145.0), (105.3, 144.2), (0.0, 147.0)):
        values = measure([align(PART, listed(start, 120, 140, end), tolerance=1.0).video])
        perfect = ("precision", "recall", "f1", "miou", "coverage", "boundary_f1")
        assert {values[name].value for name in perfect} == {1.0}, (start, end)


@pytest.mark.parametrize(("edge", "true_end", "ends"), [(106.0, 105.4, 2), (105.5, 105.4, 3), (106.0, 144.6, 2)])
def test_a_true_end_nearer_to_the_bound_of_a_part_than_to_a_shot_end_counts_as_the_bound(
    edge: float, true_end: float, ends: int
) -> None:
    guess = replace(predicted(shots(105, edge, 120, 140, 145), [1, 2]), part=True)
    assert align(guess, listed(*sorted((0, 120, 140, 200, true_end))), tolerance=1.0).video.labels.sum() == ends


def test_with_a_truth_of_a_part_only_that_part_of_the_prediction_is_scored() -> None:
    whole = as_shots(0, 50, 120, 130, 145, 200)
    whole = replace(whole, scores=np.linspace(0, 1, len(whole.shots)))  # type: ignore[arg-type]
    video = align(whole, replace(PART, source=THERE, scores=None), tolerance=1.0).video
    assert video.scores.tolist() == pytest.approx(np.linspace(0, 1, 40)[21:29].tolist())  # five seconds a shot
    assert (video.seconds[0, 0], video.seconds[-1, 1]) == (105.0, 145.0)
    assert not video.decisions(0.5)[-1]
    shot_by_shot = align(PART, replace(PART, source=THERE, scores=None), tolerance=1.0)
    assert (shot_by_shot.basis, shot_by_shot.part) == ("same shots", (105.0, 145.0))
    values = measure([video])
    assert (values["precision"].pooled, values["recall"].pooled) == (0.5, 0.5)


def test_a_given_threshold_replaces_the_listed_scenes() -> None:
    result = align(GUESS, listed(0, 20, 40, 50), tolerance=1.0, threshold=0.2)
    assert result.video.decisions(0.5).tolist() == [False, True, True, True, False]


def test_frames_are_converted_by_the_other_source_or_a_frame_rate() -> None:
    frames = in_frames(0, 20, 40, 50)
    assert align(GUESS, frames, tolerance=0.0).video.labels.tolist() == [0, 1, 0, 1, 0]
    guess = listed(0, 20, 40, 50, source=HERE)
    assert measure([align(guess, frames, 0.0, frame_rate=25).video])["f1"].pooled == 1.0
    assert measure([align(guess, replace(frames, frame_rate=25.0), 0.0).video])["f1"].pooled == 1.0


def test_times_of_equal_shots_come_from_a_source_or_a_frame_rate() -> None:
    guess = replace(GUESS, shots_seconds=None, frame_rate=None)
    truth = replace(guess, source=THERE, scores=None)
    assert align(guess, truth, 0.0).video.seconds is None
    timed = replace(truth, shots_seconds=GUESS.shots_seconds, frame_rate=1.0)
    for other, rate in ((truth, RATE), (replace(truth, frame_rate=RATE), 1.0), (timed, None)):
        result = align(guess, other, 0.0, frame_rate=rate)
        assert (result.basis, result.video.seconds.tolist()) == ("same shots", GUESS.shots_seconds.tolist())


DOUBTED = replace(GUESS, source=THERE, scene_end=np.array([0, 1, -1, 1, 0], np.int8), scores=None)
"""Whether a scene ends at 30 is doubtful."""


def test_doubtful_ends_count_unless_they_are_ignored() -> None:
    video = align(GUESS, DOUBTED, 1.0).video
    assert (video.known, video.labels.tolist()) == (None, [0, 1, 1, 1, 0])


@pytest.mark.parametrize("predicted_ends", [(20, 40), (20, 30, 40)], ids=["not predicted", "predicted"])
@pytest.mark.parametrize("how", ["same shots", "shots of the prediction", "shots of the truth"])
def test_an_ignored_doubtful_end_is_neither_a_miss_nor_a_hit(how: str, predicted_ends: tuple[int, ...]) -> None:
    guess = predicted(shots(0, 10, 20, 30, 40, 50), [time // 10 - 1 for time in predicted_ends])
    if how == "shots of the prediction":
        guess = predicted(shots(0, 5, 10, 20, 30, 40, 50), [time // 10 for time in predicted_ends])
    elif how == "shots of the truth":
        guess = listed(0, *predicted_ends, 50, source=HERE)
    result = align(guess, DOUBTED, tolerance=1.0, doubtful="ignore")
    values = measure([result.video])
    assert result.basis == how
    names = ("precision", "recall", "boundary_precision", "boundary_recall", "recall_at_3s")
    assert {name: values[name].pooled for name in names} == dict.fromkeys(names, 1.0)


MANY = listed(*range(5_000), source=HERE)


@pytest.mark.parametrize(
    ("guess", "truth", "options", "words"),
    [
        (MANY, replace(MANY, source=THERE), {}, "guess.json: 4,999 scenes are too many to compare with 4,999"),
        (GUESS, replace(GUESS, source=THERE, scene_end=None), {}, "truth.csv: has no scenes of video"),
        (replace(MANY, scenes_seconds=shots(0, 9)), in_frames(0, 20), {}, "truth.csv: has frames but no frame rate"),
        (listed(0, 20, source=HERE), listed(0, 20), {"threshold": 0.5}, "guess.json: has no scores"),
        (PART, replace(GUESS, source=THERE, part=True), {}, "guess.json: has no part of the video in common with"),
        (PART, listed(0, 50, 90), {}, "truth.csv: has no scenes between 00:01:45.000 and 00:02:25.000"),
    ],
    ids=["too many", "no labels", "no frame rate", "no scores", "no common part", "no scenes in the part"],
)
def test_what_cannot_be_compared_is_refused(
    guess: VideoAnnotation, truth: VideoAnnotation, options: dict[str, Any], words: str
) -> None:
    refusal(lambda: align(guess, truth, 1.0, **options), words, error=DatasetError)


def test_every_scene_end_of_both_lists_is_counted_once() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        cuts = np.unique(np.round(rng.uniform(1, 99, int(rng.integers(1, 25))), 1))
        times = shots(0, *cuts, 100)
        ends = np.flatnonzero(rng.random(len(times) - 1) < 0.4).tolist()
        true = np.unique(np.round(rng.uniform(1, 97, int(rng.integers(1, 12))), 1))
        guess, truth = predicted(times, ends, rng.random(len(times)).tolist()), listed(0, *true, 100)
        for video in (
            align(guess, truth, 1.0).video,
            align(replace(truth, source=HERE), replace(guess, source=THERE), 1.0).video,
        ):
            forward = video.scores[0] == video.scores[0]
            labels, decided = int(video.labels.sum()), int(video.decisions(0.5).sum())
            assert (labels, decided) == ((len(true), len(ends)) if forward else (len(ends), len(true)))
            assert (np.diff(video.shots.ravel()) >= 0).all()
