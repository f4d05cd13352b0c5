"""Cuts, dissolves, fades and wipes in small generated videos, and changes that are none of these."""

import pickle
from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from pipelines.video.shots import Boundary
from pipelines.video.transitions import TransitionDetector, correlation, frame_descriptors, weights

Video = NDArray[np.uint8]  # (N, H, W, 3)

WIDTH, HEIGHT = 112, 64


def scene(seed: int, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.float32]:
    """A picture with large and small shapes, like no other seed's."""
    rng = np.random.default_rng(seed)
    layers = (
        cv2.GaussianBlur(rng.normal(0, 1, (height, width, 3)).astype(np.float32), (0, 0), s) * s for s in (12, 4, 1)
    )
    picture = sum(weight * layer for weight, layer in zip((55, 40, 30), layers, strict=True))
    return np.clip(picture + rng.uniform(70, 180, 3), 0, 255).astype(np.float32)


def still(seed: int, frames: int) -> Video:
    return np.repeat(scene(seed)[None], frames, 0).astype(np.uint8)


def pan(seed: int, frames: int, pixels: float = 0.3) -> Video:
    wide = scene(seed, WIDTH + int(pixels * frames) + 2)
    return np.stack(
        [cv2.getRectSubPix(wide, (WIDTH, HEIGHT), (WIDTH / 2 + pixels * i, HEIGHT / 2)) for i in range(frames)]
    ).astype(np.uint8)


def zoom(seed: int, frames: int, by: float = 1.6) -> Video:
    large = scene(seed, 2 * WIDTH, 2 * HEIGHT)
    zoomed = []
    for share in by ** -np.linspace(0, 1, frames):
        window = cv2.getRectSubPix(large, (round(2 * WIDTH * share), round(2 * HEIGHT * share)), (WIDTH, HEIGHT))
        zoomed.append(cv2.resize(window, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA))
    return np.stack(zoomed).astype(np.uint8)


def mixed(before: Video, after: Video, frames: int) -> Video:
    """The two videos with a dissolve of so many frames from the end of one to the beginning of the other."""
    a = (np.arange(1, frames + 1) / (frames + 1))[:, None, None, None]
    both = (1 - a) * before[-frames:] + a * after[:frames]
    return np.concatenate([before[:-frames], both.astype(np.uint8), after[frames:]])


def plain(colour: tuple[int, int, int], frames: int) -> Video:
    return np.broadcast_to(np.uint8(colour), (frames, HEIGHT, WIDTH, 3)).copy()


def found(video: Video, rate: float = 24.0) -> list[Boundary]:
    detector = TransitionDetector(rate, round(0.6 * rate))
    prepared = [one for at in range(0, len(video), 16) for one in detector.prepare(video[at : at + 16])]
    given_out = [t for index, one in enumerate(prepared) for t in detector.push(index, one)]
    return given_out + detector.finish(len(video))


def kinds(video: Video) -> list[str]:
    return [transition.kind for transition in found(video)]


# --- transitions ----------------------------------------------------------------------------------------------------


def test_a_hard_cut_is_found_at_the_first_frame_of_the_new_shot() -> None:
    assert found(np.concatenate([still(1, 40), pan(2, 50), zoom(3, 40)])) == [("cut", 40, 40), ("cut", 90, 90)]


@pytest.mark.parametrize("frames", [6, 9, 14, 24, 40, 60])
@pytest.mark.parametrize("shot", [still, pan, zoom])
def test_a_dissolve_is_found_with_its_range_and_its_middle(shot: type, frames: int) -> None:
    video = mixed(shot(4, 100), shot(5, 100), frames)
    (transition,) = found(video)
    assert transition.kind == "dissolve"
    assert transition.start == pytest.approx(100 - frames, abs=1 + 0.12 * frames)
    assert transition.end == pytest.approx(100, abs=1 + 0.12 * frames)
    assert transition.frame == pytest.approx(100 - frames / 2, abs=1 + 0.06 * frames)


@pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (180, 20, 30)])
@pytest.mark.parametrize(("out", "hold", "into"), [(6, 1, 6), (12, 8, 30), (40, 20, 12)])
def test_a_fade_is_one_transition_from_the_first_frame_that_fades_to_the_last(
    colour: tuple[int, int, int], out: int, hold: int, into: int
) -> None:
    video = mixed(mixed(still(6, 100), plain(colour, out + hold + into), out), pan(7, 100), into)
    (transition,) = found(video)
    assert transition.kind == "fade"
    assert transition.start == pytest.approx(100 - out, abs=1 + 0.12 * out)
    assert transition.end == pytest.approx(100 + hold + into, abs=1 + 0.12 * into)


def test_a_fade_out_that_ends_in_a_hard_cut_is_one_transition() -> None:
    video = np.concatenate([mixed(still(6, 100), plain((0, 0, 0), 30), 20), still(8, 60)])
    (transition,) = found(video)
    assert (transition.kind, transition.end) == ("fade", 110)
    assert transition.start == pytest.approx(80, abs=3)


@pytest.mark.parametrize(("hold", "into"), [(8, 12), (20, 30)])
def test_a_hard_cut_to_black_followed_by_a_fade_in_is_one_transition(hold: int, into: int) -> None:
    video = np.concatenate([still(6, 60), mixed(plain((0, 0, 0), hold + into), still(8, 80), into)])
    (transition,) = found(video)
    assert (transition.kind, transition.start) == ("fade", 60)
    assert transition.end == pytest.approx(60 + hold + into, abs=3)


def test_a_hard_cut_to_long_black_is_the_only_transition() -> None:
    video = np.concatenate([still(6, 60), mixed(plain((0, 0, 0), 130), still(8, 80), 30)])
    assert found(video) == [("cut", 60, 60)]


def test_hard_cuts_to_black_and_from_it_are_two_cuts() -> None:
    video = np.concatenate([still(6, 40), plain((0, 0, 0), 30), still(8, 40)])
    assert found(video) == [("cut", 40, 40), ("cut", 70, 70)]


@pytest.mark.parametrize("frames", [10, 30])
@pytest.mark.parametrize(("axis", "reverse"), [(1, False), (1, True), (0, False), (0, True)])
def test_a_wipe_is_found_in_every_direction(frames: int, axis: int, reverse: bool) -> None:
    before, after = still(9, 60), still(10, 60)
    line = np.linspace(0, 1, (HEIGHT, WIDTH)[axis]).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
    line = 1 - line if reverse else line
    weight = np.arange(1, frames + 1) / (frames + 1)
    wiped = np.stack(
        [np.where(line < w, b, a) for w, a, b in zip(weight, before[-frames:], after[:frames], strict=True)]
    )
    (transition,) = found(np.concatenate([before[:-frames], wiped, after[frames:]]))
    assert transition.kind == "wipe"
    assert transition.frame == pytest.approx(60 - frames / 2, abs=2)


def test_consecutive_transitions_are_returned_in_order() -> None:
    video = np.concatenate(
        [mixed(still(1, 60), still(2, 60), 12), mixed(pan(3, 60), plain((0, 0, 0), 20), 10), still(4, 60)]
    )
    assert kinds(video) == ["dissolve", "cut", "fade"]


# --- what is none ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pixels", [0.3, 1.0, 3.0])
def test_a_pan_is_no_transition(pixels: float) -> None:
    assert found(pan(11, 150, pixels)) == []


@pytest.mark.parametrize("by", [1.3, 2.0])
def test_a_zoom_is_no_transition(by: float) -> None:
    assert found(zoom(12, 100, by)) == []
    assert found(zoom(12, 40, by)[::-1].copy()) == []


@pytest.mark.parametrize("frames", [8, 30])
def test_an_object_that_crosses_the_image_is_no_transition(frames: int) -> None:
    video, thing = still(13, 40 + frames), scene(14, 48, 48).astype(np.uint8)
    for i, x in enumerate(np.linspace(-48, WIDTH, frames).astype(int)):
        left, right = max(x, 0), min(x + 48, WIDTH)
        video[20 + i, 10:58, left:right] = thing[:, left - x : right - x]
    assert found(video) == []


@pytest.mark.parametrize("stays", [True, False])
def test_a_fast_object_in_front_of_a_constant_image_is_no_cut(stays: bool) -> None:
    video, thing = still(13, 60), 255 - scene(13)[:, :44].astype(np.uint8)
    places = [0] * 28 + [1, 6, 34, 39, 40] + [40] * 27  # pixels from the left
    for frame, x in zip(video, places, strict=True):
        frame[:, x : x + 44] = thing
        if not stays and x > 20:
            frame[:] = 255 - frame
    assert kinds(video) == ([] if stays else ["cut"])


def test_a_hard_cut_to_a_shot_with_changing_light_is_a_cut() -> None:
    light = np.interp(np.arange(60), [5, 55], [0.3, 1])[:, None, None, None]
    assert found(np.concatenate([still(3, 60) // 4, (pan(4, 60) * light).astype(np.uint8)])) == [("cut", 60, 60)]


def test_small_text_on_black_is_not_black() -> None:
    small_print = plain((0, 0, 0), 100)
    small_print[:, 1::4, 1::3] = 40
    light = np.interp(np.arange(100), [30, 60], [0.2, 1])[:, None, None, None]
    assert found(np.concatenate([still(5, 40), (small_print * light).astype(np.uint8)])) == [("cut", 40, 40)]


@pytest.mark.parametrize("to", [0.3, 1.4])
@pytest.mark.parametrize("shot", [still, pan])
def test_changing_light_is_no_transition(shot: type, to: float) -> None:
    light = np.interp(np.arange(100), [30, 60], [1, to])[:, None, None, None]
    video = np.clip(shot(15, 100) * light, 0, 255).astype(np.uint8)
    assert found(video) == []
    assert found(video[::-1].copy()) == []


SLOW = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)


@pytest.mark.parametrize("shares", [(1.0,), (0.7, 0.7), (1.0, 1.0, 1.0), (1.0, 0.8, 0.5, 0.3, 0.1), (1.0,) * 3 + SLOW])
@pytest.mark.parametrize("shot", [still, pan])
def test_a_flash_is_no_transition(shot: type, shares: Sequence[float]) -> None:
    video = shot(16, 80)
    for i, share in enumerate(shares, 40):
        video[i] = (1 - share) * video[i] + share * 255
    assert found(video) == []


def test_a_cut_in_a_flash_is_a_cut() -> None:
    video = np.concatenate([still(3, 40), plain((255, 255, 255), 2), still(4, 40) // 4])
    assert len(found(video)) == 1


def test_a_video_that_begins_and_ends_in_black_has_no_transitions_there() -> None:
    black = plain((0, 0, 0), 40)
    assert found(mixed(mixed(black, still(19, 100), 20), black, 20)) == []
    assert found(black) == []


@pytest.mark.parametrize("frames", [0, 1, 2, 20])
def test_a_video_that_is_shorter_than_any_transition_has_none(frames: int) -> None:
    assert found(still(20, frames)) == []


# --- properties -----------------------------------------------------------------------------------------------------


def joined(seed: int) -> Video:
    """A video with one transition of each kind."""
    dissolved = mixed(pan(seed, 60), still(seed + 1, 60), 20)
    faded = mixed(mixed(dissolved, plain((0, 0, 0), 40), 16), still(seed + 2, 60), 16)
    return np.concatenate([faded, zoom(seed + 3, 60)])


def test_a_video_has_the_same_transitions_however_its_frames_are_grouped() -> None:
    video = joined(30)
    detector = TransitionDetector(24.0, 14)
    rng = np.random.default_rng(0)
    edges = [0, *sorted(rng.choice(np.arange(1, len(video)), 40, replace=False).tolist()), len(video)]
    prepared = [one for a, b in pairwise(edges) for one in detector.prepare(video[a:b])]
    again = [t for index, one in enumerate(prepared) for t in detector.push(index, one)] + detector.finish(len(video))
    assert again == found(video)
    assert [t.kind for t in again] == ["dissolve", "fade", "cut"]


@pytest.mark.parametrize("size", [(96, 54), (150, 86), (191, 108)])
def test_a_video_has_the_same_transitions_at_every_resolution(size: tuple[int, int]) -> None:
    video = joined(40)
    other = np.stack([cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in video])
    assert [t.kind for t in found(other)] == [t.kind for t in found(video)]
    for one, same in zip(found(other), found(video), strict=True):
        assert one.frame == pytest.approx(same.frame, abs=2)


@pytest.mark.parametrize("times", [2, 4])
def test_a_higher_frame_rate_gives_transitions_at_the_same_times(times: int) -> None:
    video = joined(50)
    faster = found(video.repeat(times, 0), 24.0 * times)
    assert [t.kind for t in faster] == [t.kind for t in found(video)]
    for one, same in zip(faster, found(video), strict=True):
        assert one.frame / times == pytest.approx(same.frame, abs=2)


def test_no_transition_is_reported_later_than_the_detectors_maximum_delay() -> None:
    video = joined(60)
    detector = TransitionDetector(24.0, 14)
    for index, one in enumerate(detector.prepare(video)):
        assert all(index - detector.lag <= t.frame <= index for t in detector.push(index, one))


def test_the_data_kept_by_the_detector_does_not_grow_with_the_video() -> None:
    detector = TransitionDetector(24.0, 14)
    prepared = detector.prepare(joined(70))
    sizes = []
    for index in range(20 * len(prepared)):
        detector.push(index, prepared[index % len(prepared)])
        if index % 100 == 99:
            sizes.append(len(pickle.dumps(detector)))
    assert max(sizes) < 1.05 * max(sizes[: len(sizes) // 4]) < 500_000


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (16, 16), (30, 200), (108, 60)])
def test_an_image_of_any_size_has_a_descriptor(size: tuple[int, int]) -> None:
    video = np.random.default_rng(0).integers(0, 256, (3, *size, 3)).astype(np.uint8)
    found = frame_descriptors(video)
    assert found.shape == (3, 8 * 16 * 3 + 16 + 1)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("size", [(8, 16), (31, 56), (54, 95), (95, 40)])
def test_a_descriptor_has_the_mean_colours_of_the_cells_and_the_mean_squared_gradients_of_the_blocks(
    size: tuple[int, int],
) -> None:
    video = np.random.default_rng(1).integers(0, 256, (3, *size, 3)).astype(np.uint8)
    for image, descriptor in zip(video, frame_descriptors(video), strict=True):
        cells = cv2.resize(image.astype(np.float64), (16, 8), interpolation=cv2.INTER_AREA)
        assert np.abs(descriptor[:384].reshape(8, 16, 3) + 128 - cells).max() <= 0.5001  # whole numbers
        green = image[..., 1].astype(np.float64)
        gradients = np.diff(green[:-1], axis=1) ** 2 + np.diff(green[:, :-1], axis=0) ** 2
        blocks = cv2.resize(gradients, (4, 4), interpolation=cv2.INTER_AREA)
        np.testing.assert_allclose(descriptor[384:400].reshape(4, 4), blocks, rtol=1e-5)


@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0, 50))
def test_the_mixing_weight_of_a_frame_is_the_least_squares_solution(seed: int, share: float, noise: float) -> None:
    rng = np.random.default_rng(seed)
    start, end = rng.normal(0, 60, (2, 30))
    frame = (1 - share) * start + share * end + rng.normal(0, noise, 30)
    frames = np.stack([start, frame, end]).astype(np.float32)
    weight, off = weights(frames @ frames.T, np.array([0]), np.array([2]), np.array([[1]]))
    line = (frames[2] - frames[0])[:, None]
    (expected,), (residual,), *_ = np.linalg.lstsq(line, frames[1] - frames[0], rcond=None)
    assert weight.item() == pytest.approx(expected, abs=1e-3)
    assert off.item() == pytest.approx(residual / (line * line).sum(), abs=1e-3)


@given(st.integers(0, 10_000), st.floats(-0.5, 1))
def test_the_correlation_of_layers_follows_from_the_energy_of_their_mixtures(seed: int, rho: float) -> None:
    rng = np.random.default_rng(seed)
    a = np.linspace(0, 1, 9)
    before = rng.normal(0, 1, (4, 5000))
    after = rho * before + np.sqrt(1 - rho * rho) * rng.normal(0, 1, (4, 5000))
    after *= rng.uniform(0.3, 3)
    energy = np.stack([(((1 - w) * before + w * after) ** 2).mean(1) for w in a]).astype(np.float32)
    read = correlation(energy, np.array([0]), np.array([8]), np.arange(1, 8)[None], a[None, 1:8].astype(np.float32))
    assert read == pytest.approx(np.full((1, 4), rho), abs=0.15)
