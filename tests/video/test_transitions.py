"""Cuts, dissolves, fades and wipes in small generated videos, and changes that are none of these."""

import pickle
from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.video.mixtures import frame_descriptors
from pipelines.video.shots import Boundary
from pipelines.video.transitions import TransitionDetector

Video = NDArray[np.uint8]

WIDTH, HEIGHT = 112, 64


def image(seed: int, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.float32]:
    """Return an image with large and small shapes, different for every seed."""
    rng = np.random.default_rng(seed)
    layers = (
        cv2.GaussianBlur(rng.normal(0, 1, (height, width, 3)).astype(np.float32), (0, 0), s) * s for s in (12, 4, 1)
    )
    shapes = sum(weight * layer for weight, layer in zip((55, 40, 30), layers, strict=True))
    return np.clip(shapes + rng.uniform(70, 180, 3), 0, 255).astype(np.float32)


def still(seed: int, frames: int) -> Video:
    return np.repeat(image(seed)[None], frames, 0).astype(np.uint8)


def pan(seed: int, frames: int, pixels: float = 0.3) -> Video:
    wide = image(seed, WIDTH + int(pixels * frames) + 2)
    return np.stack(
        [cv2.getRectSubPix(wide, (WIDTH, HEIGHT), (WIDTH / 2 + pixels * i, HEIGHT / 2)) for i in range(frames)]
    ).astype(np.uint8)


def zoom(seed: int, frames: int, by: float = 1.6) -> Video:
    large = image(seed, 2 * WIDTH, 2 * HEIGHT)
    zoomed = []
    for share in by ** -np.linspace(0, 1, frames):
        window = cv2.getRectSubPix(large, (round(2 * WIDTH * share), round(2 * HEIGHT * share)), (WIDTH, HEIGHT))
        zoomed.append(cv2.resize(window, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA))
    return np.stack(zoomed).astype(np.uint8)


def mixed(before: Video, after: Video, frames: int) -> Video:
    """Return two videos with a dissolve of so many frames from the end of the first to the beginning of the second."""
    a = (np.arange(1, frames + 1) / (frames + 1))[:, None, None, None]
    both = (1 - a) * before[-frames:] + a * after[:frames]
    return np.concatenate([before[:-frames], both.astype(np.uint8), after[frames:]])


def plain(color: tuple[int, int, int], frames: int) -> Video:
    return np.broadcast_to(np.uint8(color), (frames, HEIGHT, WIDTH, 3)).copy()


def wiped(before: Video, after: Video, frames: int, axis: int = 1, reverse: bool = False) -> Video:
    """Return two videos with a wipe of so many frames, along an axis (0: down, 1: right) or the other way."""
    line = np.linspace(0, 1, (HEIGHT, WIDTH)[axis]).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
    line = 1 - line if reverse else line
    weight = np.arange(1, frames + 1) / (frames + 1)
    both = [np.where(line < w, b, a) for w, a, b in zip(weight, before[-frames:], after[:frames], strict=True)]
    return np.concatenate([before[:-frames], np.stack(both), after[frames:]])


def transitions_of(video: Video, rate: float = 24.0, times: Sequence[float] | None = None) -> list[Boundary]:
    """Return the transitions that the detector reports, each within its maximum delay."""
    detector, transitions = TransitionDetector(rate, 0.6, times=times), list[Boundary]()
    prepared = [frame for start in range(0, len(video), 16) for frame in detector.prepare(video[start : start + 16])]
    for index, frame in enumerate(prepared):
        reported = detector.push(index, frame)
        assert all(index - detector.lag <= transition.frame <= index for transition in reported)
        transitions += reported
    return transitions + detector.finish(len(video))


def kinds(video: Video) -> list[str]:
    return [transition.kind for transition in transitions_of(video)]


def black(frames: int) -> Video:
    return plain((0, 0, 0), frames)


def lit(video: Video, first: float, last: float, start: int = 30, end: int = 60) -> Video:
    """Return a video whose light changes between two frames."""
    light = np.interp(np.arange(len(video)), [start, end], [first, last])[:, None, None, None]
    return np.clip(video * light, 0, 255).astype(np.uint8)


def small_print(frames: int) -> Video:
    video = black(frames)
    video[:, 1::4, 1::3] = 40
    return video


# --- transitions ----------------------------------------------------------------------------------------------------

# The videos, one after the other, and the first frames of new shots.
HARD_CUTS = {
    "between shots": ([still(1, 40), pan(2, 50), zoom(3, 40)], [40, 90]),
    "to long black": ([still(6, 60), mixed(black(130), still(8, 80), 30)], [60]),
    "to black and from it": ([still(6, 40), black(30), still(8, 40)], [40, 70]),
    "to a shot with changing light": ([still(3, 60) // 4, lit(pan(4, 60), 0.3, 1, 5, 55)], [60]),
    "to small text on black": ([still(5, 40), lit(small_print(100), 0.2, 1)], [40]),
}


@pytest.mark.parametrize("where", HARD_CUTS)
def test_a_hard_cut_is_found_at_the_first_frame_of_the_new_shot(where: str) -> None:
    parts, cuts = HARD_CUTS[where]
    assert transitions_of(np.concatenate(parts)) == [("cut", cut, cut) for cut in cuts]


def test_a_cut_in_a_flash_is_one_transition() -> None:
    assert len(kinds(np.concatenate([still(3, 40), plain((255, 255, 255), 2), still(4, 40) // 4]))) == 1


@pytest.mark.parametrize(("shot", "frames"), [(still, 6), (still, 24), (still, 60), (pan, 9), (pan, 40), (zoom, 14)])
def test_a_dissolve_is_found_with_its_range_and_its_middle(shot: type, frames: int) -> None:
    video = mixed(shot(4, 100), shot(5, 100), frames)
    (transition,) = transitions_of(video)
    assert transition.kind == "dissolve"
    assert transition.start == pytest.approx(100 - frames, abs=1 + 0.12 * frames)
    assert transition.end == pytest.approx(100, abs=1 + 0.12 * frames)
    assert transition.frame == pytest.approx(100 - frames / 2, abs=1 + 0.06 * frames)


@pytest.mark.parametrize("color", [(0, 0, 0), (255, 255, 255), (180, 20, 30)])
@pytest.mark.parametrize(("out", "hold", "into"), [(6, 1, 6), (12, 8, 30), (40, 20, 12)])
def test_a_fade_is_one_transition_from_the_first_frame_that_fades_to_the_last(
    rng: np.random.Generator, color: tuple[int, int, int], out: int, hold: int, into: int
) -> None:
    video = mixed(mixed(still(6, 100), plain(color, out + hold + into), out), pan(7, 100), into)
    noise = rng.integers(-1, 2, video.shape)  # as of compression
    (transition,) = transitions_of(np.clip(video + noise, 0, 255).astype(np.uint8))
    assert transition.kind == "fade"
    assert transition.start == pytest.approx(100 - out, abs=1 + 0.12 * out)
    assert transition.end == pytest.approx(100 + hold + into, abs=1 + 0.12 * into)


@pytest.mark.parametrize(
    ("parts", "start", "end"),
    [
        ([mixed(still(6, 100), black(30), 20), still(8, 60)], pytest.approx(80, abs=3), 110),
        ([still(6, 60), mixed(black(20), still(8, 80), 12)], 60, pytest.approx(80, abs=3)),
        ([still(6, 60), mixed(black(50), still(8, 80), 30)], 60, pytest.approx(110, abs=3)),
    ],
    ids=["out", "in", "slowly in"],
)
def test_half_a_fade_and_a_hard_cut_beside_it_are_a_fade(parts: list[Video], start: float, end: float) -> None:
    assert transitions_of(np.concatenate(parts)) == [("fade", start, end)]


def vignette(video: Video) -> Video:
    """Return a video that darkens toward its edges."""
    rows, columns = np.ogrid[-1 : 1 : video.shape[1] * 1j, -1 : 1 : video.shape[2] * 1j]
    return (video * np.exp(-0.5 * (rows**2 + columns**2))[..., None]).astype(np.uint8)


@pytest.mark.parametrize("gap", [12, 18, 60])
def test_a_hard_change_just_before_a_fade_is_a_cut_beside_the_fade(gap: int) -> None:
    video = zoom(1, 60 + gap + 30)
    changed = vignette(video[60:])
    light = np.concatenate([np.ones(gap), 1 - (np.arange(1, 31) / 31) ** 0.7])  # quickly at first
    faded = (changed * light[:, None, None, None]).astype(np.uint8)
    cut, fade = transitions_of(np.concatenate([video[:60], faded, black(10), still(9, 80)]))
    assert cut == ("cut", 60, 60)
    assert fade.kind == "fade"
    assert fade.start == pytest.approx(60 + gap, abs=6)


@pytest.mark.parametrize("gap", [12, 24, 36, 60])
def test_a_cut_just_before_a_dissolve_or_a_fade_is_found_with_it(gap: int) -> None:
    dissolve = mixed(still(3, gap + 20), still(5, 80), 20)
    fade = mixed(mixed(still(3, gap + 20), black(50), 20), still(5, 80), 20)
    for name, video in (("dissolve", dissolve), ("fade", fade)):
        cut, other = transitions_of(np.concatenate([still(1, 60), video]))
        assert cut == ("cut", 60, 60)
        assert other.kind == name


@pytest.mark.parametrize(("axis", "reverse", "frames"), [(1, False, 10), (1, True, 30), (0, False, 30), (0, True, 10)])
def test_a_wipe_is_found_in_every_direction(frames: int, axis: int, reverse: bool) -> None:
    (transition,) = transitions_of(wiped(still(9, 60), still(10, 60), frames, axis, reverse))
    assert transition.kind == "wipe"
    assert transition.frame == pytest.approx(60 - frames / 2, abs=2)


# --- few frames per second, and frames of any length ----------------------------------------------------------------

FEW = (5, 8, 12, 24)
"""Of 24 frames per second, every fifth one, every eighth one, ..."""


@pytest.mark.parametrize("step", FEW)
def test_cuts_are_found_with_few_frames_per_second(step: int) -> None:
    shots = [still(1, 50), still(6, 70), pan(1, 30, 0.5), zoom(8, 60), zoom(5, 80), still(3, 55), pan(7, 40)]
    cuts = [-(-cut // step) for cut in np.cumsum([len(shot) for shot in shots[:-1]]).tolist()]
    assert transitions_of(np.concatenate(shots)[::step], 24 / step) == [("cut", cut, cut) for cut in cuts]


@pytest.mark.parametrize("seconds", [0.5, 1.0, 5.0, 60.0])
def test_every_image_of_a_slideshow_of_one_frame_each_is_a_shot(seconds: float) -> None:
    video = np.stack([image(seed) for seed in (*range(13), 15, 16, 17)]).astype(np.uint8)  # unlike ones
    assert [t.frame for t in transitions_of(video, 1 / seconds)] == list(range(1, 16))


@pytest.mark.parametrize("rate", [24.0, 3.0, 1000.0])
def test_a_screen_recording_that_stores_only_changes_has_its_cuts_at_any_average_rate(rate: float) -> None:
    """Typing and scrolling at 30 frames per second, and pauses of seconds before another window opens."""
    video = np.concatenate([pan(1, 12, 0.5), pan(2, 30, 1.0), still(3, 1), still(4, 1), pan(5, 20, 0.5)])
    starts, lengths = (12, 42, 43, 44), (12, 30, 1, 1, 20)
    times = np.concatenate([8 * part + np.arange(frames) / 30 for part, frames in enumerate(lengths)])
    assert [t.frame for t in transitions_of(video, rate, times.tolist())] == list(starts)


def test_a_shot_is_at_least_as_long_as_the_minimum_in_seconds_whatever_its_number_of_frames() -> None:
    video = np.concatenate([still(1, 2), still(2, 2), still(3, 2), still(4, 2)])
    times = [0.0, 2.0, 4.0, 4.2, 4.4, 6.0, 8.0, 10.0]
    assert [t.frame for t in transitions_of(video, 1.0, times)] == [2, 6]


# --- changes that are no transitions --------------------------------------------------------------------------------

STEADY = {
    "slow pan": pan(11, 150),
    "pan": pan(11, 150, 1.0),
    "fast pan": pan(11, 150, 3.0),
    "slow zoom": zoom(12, 100, 1.3),
    "quick zoom": zoom(12, 40, 1.3),
    "large zoom": zoom(12, 100, 2.0),
    "quick large zoom": zoom(12, 40, 2.0),
    "falling light": lit(still(15, 100), 1, 0.3),
    "rising light": lit(still(15, 100), 1, 1.4),
    "pan in falling light": lit(pan(15, 100), 1, 0.3),
    "pan in rising light": lit(pan(15, 100), 1, 1.4),
    "black at the beginning and end": mixed(mixed(black(40), still(19, 100), 20), black(40), 20),
    "black": black(40),
    "no frames": still(20, 0),
    "one frame": still(20, 1),
    "two frames": still(20, 2),
    "shorter than any transition": still(20, 20),
}


@pytest.mark.parametrize("name", STEADY)
def test_motion_light_black_and_short_videos_are_no_transitions(name: str) -> None:
    for step in (1, -1, *(() if name.startswith("black at") else FEW)):
        assert transitions_of(STEADY[name][::step].copy(), 24 / abs(step)) == [], f"each {step} frames"


@pytest.mark.parametrize("frames", [8, 30])
def test_an_object_that_crosses_the_image_is_no_transition(frames: int) -> None:
    video, thing = still(13, 40 + frames), image(14, 48, 48).astype(np.uint8)
    for i, x in enumerate(np.linspace(-48, WIDTH, frames).astype(int)):
        left, right = max(x, 0), min(x + 48, WIDTH)
        video[20 + i, 10:58, left:right] = thing[:, left - x : right - x]
    assert transitions_of(video) == []


def test_a_fast_object_in_front_of_a_constant_image_is_no_cut() -> None:
    video, thing = still(13, 60), 255 - image(13)[:, :44].astype(np.uint8)
    places = [0] * 28 + [1, 6, 34, 39, 40] + [40] * 27  # pixels from the left
    for frame, x in zip(video, places, strict=True):
        frame[:, x : x + 44] = thing
    assert transitions_of(video) == []


SLOW = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)


@pytest.mark.parametrize("shares", [(1.0,), (0.7, 0.7), (1.0, 0.8, 0.5, 0.3, 0.1), (1.0,) * 3 + SLOW])
@pytest.mark.parametrize("shot", [still, pan])
def test_a_flash_is_no_transition(shot: type, shares: Sequence[float]) -> None:
    video = shot(16, 80)
    for i, share in enumerate(shares, 40):
        video[i] = (1 - share) * video[i] + share * 255
    assert transitions_of(video) == []


# --- properties -----------------------------------------------------------------------------------------------------


def joined(seed: int) -> Video:
    """Return a video with one transition of each kind."""
    dissolved = mixed(pan(seed, 60), still(seed + 1, 60), 20)
    faded = mixed(mixed(dissolved, black(40), 16), still(seed + 2, 60), 16)
    return np.concatenate([faded, zoom(seed + 3, 60)])


def test_a_video_has_the_same_transitions_however_its_frames_are_grouped() -> None:
    video = joined(30)
    detector = TransitionDetector(24.0, 0.6)
    rng = np.random.default_rng(0)
    edges = [0, *sorted(rng.choice(np.arange(1, len(video)), 40, replace=False).tolist()), len(video)]
    prepared = [one for a, b in pairwise(edges) for one in detector.prepare(video[a:b])]
    again = [t for index, one in enumerate(prepared) for t in detector.push(index, one)] + detector.finish(len(video))
    assert again == transitions_of(video)
    assert [t.kind for t in again] == ["dissolve", "fade", "cut"]


@pytest.mark.parametrize(("size", "times"), [((96, 54), 1), ((191, 108), 1), ((112, 64), 4)])
def test_resolution_and_frame_rate_do_not_change_the_transitions(size: tuple[int, int], times: int) -> None:
    video = joined(40)
    other = np.stack([cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in video.repeat(times, 0)])
    expected, actual = transitions_of(video), transitions_of(other, 24.0 * times)
    assert [t.kind for t in actual] == [t.kind for t in expected]
    assert [t.frame / times for t in actual] == pytest.approx([t.frame for t in expected], abs=2)


def test_the_data_kept_by_the_detector_does_not_grow_with_the_video() -> None:
    detector = TransitionDetector(24.0, 0.6)
    prepared = detector.prepare(joined(70))
    sizes = []
    for index in range(20 * len(prepared)):
        detector.push(index, prepared[index % len(prepared)])
        if index % 100 == 99:
            sizes.append(len(pickle.dumps(detector)))
    assert max(sizes) < 1.05 * max(sizes[: len(sizes) // 4]) < 500_000


@pytest.mark.parametrize("size", [(8, 16), (31, 56), (54, 95), (95, 40)])
def test_a_descriptor_has_mean_colors_and_mean_squared_gradients(
    rng: np.random.Generator, size: tuple[int, int]
) -> None:
    video = rng.integers(0, 256, (3, *size, 3)).astype(np.uint8)
    for frame, descriptor in zip(video, frame_descriptors(video), strict=True):
        cells = cv2.resize(frame.astype(np.float64), (16, 8), interpolation=cv2.INTER_AREA)
        assert np.abs(descriptor[:384].reshape(8, 16, 3) + 128 - cells).max() <= 0.5001  # whole numbers
        green = frame[..., 1].astype(np.float64)
        gradients = np.diff(green[:-1], axis=1) ** 2 + np.diff(green[:, :-1], axis=0) ** 2
        blocks = cv2.resize(gradients, (4, 4), interpolation=cv2.INTER_AREA)
        np.testing.assert_allclose(descriptor[384:400].reshape(4, 4), blocks, rtol=1e-5)
