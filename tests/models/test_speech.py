"""The term of speech: what subtitle times tell about scene ends."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.models.speech import (
    CHANGE_SECONDS,
    CHANGE_WEIGHT,
    LEAST_SPEECH,
    NEARBY_SECONDS,
    QUIET_SECONDS,
    QUIET_WEIGHT,
    speech_logits,
)
from pipelines.scenes import Line


def shots_of(*cuts: float) -> NDArray[np.float64]:
    return np.stack([cuts[:-1], cuts[1:]], axis=1).astype(float)


def lines_of(*times: tuple[float, float]) -> list[Line]:
    return [Line(start, end, "What?") for start, end in times]


def random_video(seed: int) -> tuple[NDArray[np.float64], list[Line]]:
    """Times in whole milliseconds; lines overlap, and some begin before the video or end after it."""
    rng = np.random.default_rng(seed)
    cuts = np.unique(rng.integers(0, 400_000, 60)) / 1000 + 7
    starts = np.sort(rng.integers(0, 420_000, 70)) / 1000
    return shots_of(*cuts), lines_of(*zip(starts, starts + rng.integers(100, 9000, 70) / 1000, strict=True))


def reference(shots: NDArray[np.float64], lines: list[Line]) -> NDArray[np.float64]:
    """The term by its definition, from whether there is speech in each millisecond."""
    ms = np.rint(shots * 1000).astype(int)
    first, stop = ms[0, 0], ms[-1, 1]
    speech = np.zeros(stop + 10_000, bool)
    for line in lines:
        speech[round(line.start * 1000) : round(line.end * 1000)] = True

    def share(start: int, end: int) -> float:
        return float(speech[max(start, first) : min(end, stop)].mean())

    if share(first, stop) < LEAST_SPEECH:
        return np.zeros(len(shots))
    cuts = [int(cut) for cut in ms[:-1, 1]]
    reach = int(QUIET_SECONDS * 1000)
    loud = [round(share(cut - reach, cut + reach), 6) for cut in cuts]
    values = []
    for k, cut in enumerate(cuts):
        windows = [int(seconds * 1000) for seconds in CHANGE_SECONDS]
        change = sum(abs(share(cut, cut + w) - share(cut - w, cut)) for w in windows) / len(windows)
        nearby = [loud[i] for i, other in enumerate(cuts) if abs(cut - other) <= NEARBY_SECONDS * 1000]
        rank = sum((other > loud[k]) + (other == loud[k]) / 2 for other in nearby) / len(nearby)
        values.append(CHANGE_WEIGHT * change + QUIET_WEIGHT * rank)
    return np.array([value - sum(values) / len(values) for value in values] + [0.0])


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_its_definition_gives_millisecond_by_millisecond(seed: int) -> None:
    shots, lines = random_video(seed)
    np.testing.assert_allclose(speech_logits(shots, lines), reference(shots, lines), atol=1e-5)


@pytest.mark.parametrize(
    "lines",
    [[], lines_of((50, 55)), lines_of((-30, -5), (130, 200)), lines_of((0, 100))],
    ids=["no lines", "few lines", "lines outside of the video", "speech all the time"],
)
def test_it_is_exactly_zero_if_lines_tell_nothing(lines: list[Line]) -> None:
    assert not speech_logits(shots_of(*range(0, 101, 4)), lines).any()


@pytest.mark.parametrize("cuts", [(0, 100), (0, 40, 100)])
def test_one_cut_or_none_has_nothing_to_compare_with(cuts: tuple[float, ...]) -> None:
    assert not speech_logits(shots_of(*cuts), lines_of((0, 40))).any()


def test_its_mean_over_the_cuts_is_zero_and_the_last_shot_has_zero() -> None:
    logits = speech_logits(*random_video(3))
    assert logits.any()
    assert logits[-1] == 0
    assert abs(logits.mean()) < 1e-12


def test_only_times_relative_to_each_other_count() -> None:
    shots, lines = random_video(1)
    later = lines_of(*((line.start + 512, line.end + 512) for line in lines))
    np.testing.assert_allclose(speech_logits(shots + 512, later), speech_logits(shots, lines), atol=1e-9)


def test_a_pause_around_a_cut_raises_it_and_an_utterance_across_it_lowers_it() -> None:
    shots = shots_of(*range(0, 201, 10))
    talk = [(time + 0.5, time + 8.5) for time in range(0, 200, 10)]  # a short pause at every cut
    before = speech_logits(shots, lines_of(*talk))
    pause = [(start, min(end, 96.0)) if start < 100 < end + 2 else (start, end) for start, end in talk]
    assert (speech_logits(shots, lines_of(*pause)) - before)[9] > 0.2
    across = sorted([*talk, (98.0, 102.0)])
    assert (speech_logits(shots, lines_of(*across)) - before)[9] < -0.2


def test_a_cut_between_talk_and_silence_is_above_all_others() -> None:
    logits = speech_logits(shots_of(*range(0, 201, 10)), lines_of((1, 100)))
    assert logits.argmax() == 9
