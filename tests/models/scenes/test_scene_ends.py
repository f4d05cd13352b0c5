"""The best choice of scene ends, against trying every choice."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from pipelines.errors import BasslError
from pipelines.models.scenes import choose_scene_ends, choose_scenes, length_warnings, raise_at_black
from pipelines.scenes import Segment, Shot, group_shots, in_credits

Numbers = NDArray[np.float64]


def worth(scores: Numbers, chosen: list[int], threshold: float) -> float:
    """What a choice is worth; the last shot ends a scene in any case."""
    p = scores[chosen[:-1]]
    return float(np.sum(np.log(p / (1 - p)) - np.log(threshold / (1 - threshold))))


def lengths(ends: Numbers, chosen: list[int]) -> Numbers:
    return np.diff(ends[chosen], prepend=0.0)


def all_choices(ends: Numbers, max_scene: float, pins: list[bool | None]) -> list[list[int]]:
    """Every choice that pins allow, without a scene longer than the maximum, unless pins refuse all ends inside."""
    last = len(ends) - 1
    choices = [[*some, last] for count in range(last + 1) for some in combinations(range(last), count)]
    possible = np.cumsum([pin is not False or i == last for i, pin in enumerate(pins)])
    return [
        choice
        for choice in choices
        if all(pin in (None, i in choice) for i, pin in enumerate(pins[:last]))
        and ((lengths(ends, choice) <= max_scene + 1e-9) | (np.diff(possible[choice], prepend=0) == 1)).all()
    ]


def too_short(ends: Numbers, chosen: list[int], min_scene: float) -> int:
    return int((lengths(ends, chosen) < min_scene - 1e-9).sum())


@st.composite
def videos(draw: st.DrawFn) -> tuple[Numbers, Numbers]:
    """Scores and ends of up to eight shots; tenths of seconds, whose sums often equal a limit but for rounding."""
    shots = draw(st.integers(1, 8))
    scores = draw(st.lists(st.floats(0.01, 0.99), min_size=shots, max_size=shots))
    durations = draw(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.7, 5.0]), min_size=shots, max_size=shots))
    return np.array(scores), np.cumsum(durations)


MINIMA = st.sampled_from([0.0, 0.2, 0.3, 0.6, 1.0, 10.0, 100.0])
MAXIMA = st.sampled_from([0.05, 0.3, 0.6, 1.0, 1.2, 10.0, np.inf])
THRESHOLDS = st.sampled_from([0.05, 0.3, 0.5, 0.9])
NUMBERS = st.none() | st.integers(1, 8)
PINS = st.lists(st.sampled_from([None, None, True, False]), min_size=8, max_size=8)


@settings(max_examples=300)
@given(videos(), THRESHOLDS, MINIMA, MAXIMA, NUMBERS, st.just([None] * 8) | PINS)
def test_the_choice_has_the_fewest_short_scenes_and_of_these_choices_the_greatest_gain(
    video: tuple[Numbers, Numbers],
    threshold: float,
    min_scene: float,
    max_scene: float,
    scenes: int | None,
    pins: list[bool | None],
) -> None:
    scores, ends = video
    pins = pins[: len(ends)]
    before = scores.copy(), ends.copy()
    choices = all_choices(ends, max_scene, pins)
    fewest = min(too_short(ends, choice, min_scene) for choice in choices)
    choices = [choice for choice in choices if too_short(ends, choice, min_scene) == fewest]
    choices = [choice for choice in choices if scenes in (None, len(choice))]
    if not choices:
        with pytest.raises(BasslError, match=r"divided into \d scenes?( within these limits, pins and credits)?$"):
            choose_scene_ends(scores, ends, threshold, min_scene, max_scene, scenes, pins)
        return
    chosen = choose_scene_ends(scores, ends, threshold, min_scene, max_scene, scenes, pins)
    assert all(map(np.array_equal, before, video))
    assert chosen in choices
    shots = [Shot(i, i, i + 1, float(np.append(0.0, ends)[i]), float(end), 0.5) for i, end in enumerate(ends)]
    limits = {"min_scene": min_scene, "max_scene": max_scene}
    beyond = (lengths(ends, chosen) > max_scene + 1e-9).any(), too_short(ends, chosen, min_scene) > 0
    assert len(length_warnings("a.mp4", group_shots(shots, chosen), limits)) == sum(beyond)
    assert worth(scores, chosen, threshold) >= max(worth(scores, c, threshold) for c in choices) - 1e-9


def test_scores_that_equal_the_threshold_and_scores_of_0_and_1_are_accepted() -> None:
    scores, ends = np.array([1.0, 0.29, 0.3, 0.0]), np.array([1.0, 2.0, 3.0, 4.0])
    assert choose_scene_ends(scores, ends, threshold=0.3) == [0, 2, 3]
    assert choose_scene_ends(scores, ends, scenes=4) == [0, 1, 2, 3]


@pytest.mark.parametrize("scenes", [0, 4])
def test_an_impossible_number_of_scenes_is_refused(scenes: int) -> None:
    with pytest.raises(BasslError, match="3 shots"):
        choose_scene_ends(np.array([0.5] * 3), np.arange(1.0, 4.0), scenes=scenes)


def test_a_number_of_scenes_that_takes_too_much_memory_is_refused() -> None:
    with pytest.raises(
        BasslError, match="50,000 scenes of 100,000 shots need too much memory; choose fewer, or a `thr"
    ):
        choose_scene_ends(np.full(100_000, 0.5), np.arange(1.0, 100_001), scenes=50_000)


def test_scene_ends_of_a_day_are_chosen() -> None:
    rng = np.random.default_rng(0)
    scores, durations = rng.uniform(size=10_000), rng.uniform(1, 16, size=10_000)
    ends = np.cumsum(durations)
    for scenes in (None, 800):
        chosen = choose_scene_ends(scores, ends, min_scene=30.0, max_scene=120.0, scenes=scenes)
        assert scenes in (None, len(chosen))
        assert lengths(ends, chosen).min() >= 30
        assert lengths(ends, chosen).max() <= 120


def test_scenes_longer_or_shorter_than_the_limits_are_named_by_a_warning() -> None:
    shots = shots_of_lengths(3, 70, 20, 70, 5)
    assert length_warnings("a.mp4", group_shots(shots, [1, 4]), {"min_scene": 10.0, "max_scene": 0.0}) == ()
    scenes = choose_scenes(shots, threshold=0.5, min_scene=10.0, max_scene=60.0, drop_short=False, scenes=None)
    assert [scene.end_shot for scene in scenes] == [1, 2, 3, 4, 5]
    assert length_warnings("a.mp4", scenes, {"min_scene": 10.0, "max_scene": 60.0}) == (
        "a.mp4: 2 scenes, the first at 00:00:03.000, longer than 60 s, because shots, also joined ones, are never cut",
        "a.mp4: 2 scenes, the first at 00:00:00.000, shorter than 10 s, so that none exceeds 60 s",
    )
    assert length_warnings("a.mp4", scenes, {"min_scene": 3.0, "max_scene": 70.0}) == (), "exactly at the limits"


def shots_of_lengths(*seconds: int) -> list[Shot]:
    ends = np.cumsum(seconds).tolist()
    return [
        Shot(i, (end - s) * 25, end * 25, float(end - s), float(end), 0.3)
        for i, (s, end) in enumerate(zip(seconds, ends, strict=True))
    ]


def test_black_inside_a_video_raises_the_score_of_its_most_likely_cut_alone() -> None:
    shots = [Shot(i, i, i + 1, float(i), i + 1.0, 0.3 if i == 5 else 0.2) for i in range(10)]
    black = [Segment("black", 0, 1, start, end) for start, end in ((0.0, 1.05), (3.2, 3.8), (5.08, 5.92), (8.95, 10.0))]
    others = [Segment(kind, 7, 8, 7.0, 8.0) for kind in ("bars", "silence")]
    raised = raise_at_black(shots, [*black, *others])
    changed = [after.index for before, after in zip(shots, raised, strict=True) if after != before]
    assert changed == [5]
    assert raised[5].score == pytest.approx(0.3 * np.e / (0.3 * np.e + 0.7))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_shot_is_in_credits_if_its_middle_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shots, starts = shots_of_lengths(*rng.integers(1, 4, 40)), rng.uniform(0, 80, 9).tolist()
    kinds = ("opening_credits", "black", "end_credits") * 3
    parts = [Segment(kind, 0, 1, start, start + rng.uniform(0, 6)) for kind, start in zip(kinds, starts, strict=True)]
    middles = [(shot.start + shot.end) / 2 for shot in shots]
    credits = [part for part in parts if part.kind != "black"]
    assert in_credits(shots, parts) == [any(part.start <= at < part.end for part in credits) for at in middles]


@pytest.mark.parametrize(("kind", "ends"), [("intro", [1, 2, 4]), ("outro", [1, 2, 4]), ("recap", [4])])
def test_scenes_end_at_both_ends_of_an_intro_and_an_outro_and_not_at_a_recap(kind: str, ends: list[int]) -> None:
    shots = shots_of_lengths(10, 10, 10, 10)
    segments = [Segment(kind, 0, 0, 10.5, 19.0)]
    options = {"threshold": 0.5, "min_scene": 0.0, "max_scene": 0.0, "drop_short": False, "scenes": None}
    assert [scene.end_shot for scene in choose_scenes(shots, **options, segments=segments)] == ends
