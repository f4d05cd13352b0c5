"""What episodes repeat, found by hashes of their pictures. Hashes of made-up shots stand for the pictures here."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.video.series import Episode, PictureHashes, Span, find_repeats

Hashes = NDArray[np.uint64]
RATE = 24


def filmed(rng: np.random.Generator, seconds: float) -> Hashes:
    """Hashes of shots of one to five seconds, in which a bit changes a few times a second."""
    hashes: list[Hashes] = []
    while sum(map(len, hashes)) < seconds * RATE:
        shot = np.full(rng.integers(RATE, 5 * RATE), rng.integers(1, 2**63), np.uint64)
        flips = np.uint64(1) << rng.integers(0, 64, len(shot) // 8 + 1).astype(np.uint64)
        hashes.append(shot ^ np.repeat(np.bitwise_xor.accumulate(flips), 8)[: len(shot)])
    return np.concatenate(hashes)[: round(seconds * RATE)]


def encoded(rng: np.random.Generator, hashes: Hashes) -> Hashes:
    """The same pictures in another encoding, which changes three bits in a hundred."""
    bits = np.unpackbits(hashes.view(np.uint8)) ^ (rng.random(64 * len(hashes)) < 0.03)
    changed: Hashes = np.packbits(bits).view(np.uint64)
    return changed


def shown(*parts: Hashes, rate: float = RATE) -> Episode:
    """An episode of some parts, at another frame rate for the same pictures."""
    hashes = np.concatenate(parts)
    times = np.arange(0, len(hashes) / RATE, 1 / rate)
    return Episode(hashes[np.minimum((times * RATE + 1e-6).astype(int), len(hashes) - 1)], times)


def ends(span: Span) -> list[float]:
    return [span.start, span.end]


def test_two_openings_an_ending_and_a_recap_are_found_to_a_few_frames_and_a_stranger_gets_nothing() -> None:
    rng = np.random.default_rng(0)
    openings, ending = [filmed(rng, 30), filmed(rng, 20)], filmed(rng, 25)
    bodies = [filmed(rng, 240) for _ in range(5)]
    colds = [filmed(rng, seconds) for seconds in (3, 40, 0.5, 20, 12)]
    pieces = ((1, 900, 50), (1, 2000, 80), (0, 1000, 45), (1, 3500, 40), (0, 3000, 45), (1, 4700, 60))
    recap = [encoded(rng, bodies[body][at : at + length]) for body, at, length in pieces]
    episodes = []
    for i, (cold, body) in enumerate(zip(colds, bodies, strict=True)):
        opening = encoded(rng, openings[i // 3])
        parts = (*(recap if i == 2 else ()), cold, opening, body, encoded(rng, ending), filmed(rng, 4))
        episodes.append(shown(*parts, rate=(24, 25, 30, 24000 / 1001, 24)[i]))
    repeats, same = find_repeats([*episodes, shown(filmed(rng, 280))])
    assert same == []
    for i, (found, cold) in enumerate(zip(repeats, colds, strict=False)):
        start = (len(cold) + (sum(map(len, recap)) if i == 2 else 0)) / RATE
        length = len(openings[i // 3]) / RATE
        assert ends(found["intro"]) == pytest.approx([start, start + length], abs=3 / RATE)
        assert ends(found["outro"]) == pytest.approx([start + length + 240, start + length + 265], abs=3 / RATE)
        assert ("recap" in found) == (i == 2)
    assert ends(repeats[2]["recap"]) == pytest.approx([0, sum(map(len, recap)) / RATE], abs=0.3)
    assert repeats[-1] == {}


def test_two_cuts_of_one_film_have_no_intro_and_are_named() -> None:
    rng = np.random.default_rng(1)
    film = filmed(rng, 120)
    repeats, same = find_repeats([shown(film), shown(filmed(rng, 10), encoded(rng, film)), shown(filmed(rng, 130))])
    assert (repeats, same) == ([{}, {}, {}], [(0, 1)])


def test_what_is_in_an_episode_twice_or_in_its_middle_is_no_intro() -> None:
    rng = np.random.default_rng(2)
    twice, middle = filmed(rng, 10), filmed(rng, 12)
    episodes = [
        shown(filmed(rng, 5), twice, filmed(rng, 48), twice, filmed(rng, 5)),
        shown(filmed(rng, 9), twice, filmed(rng, 48), twice, filmed(rng, 5)),
        shown(filmed(rng, 30), middle[: 6 * RATE], middle[6 * RATE :], filmed(rng, 30)),
        shown(filmed(rng, 31), middle, filmed(rng, 29)),
    ]
    repeats, _ = find_repeats(episodes)
    assert all("intro" not in found and "outro" not in found for found in repeats)


def test_a_still_that_two_episodes_show_or_a_flat_picture_is_no_intro() -> None:
    rng = np.random.default_rng(5)
    still = np.full(10 * RATE, rng.integers(1, 2**63), np.uint64)
    episodes = [shown(filmed(rng, 5), still ^ np.uint64(bits), filmed(rng, 60)) for bits in (0, 0b10110)]
    assert find_repeats(episodes) == ([{}, {}], [])
    flicker = np.resize(np.repeat(np.array([0b11111, 0b1111100000], np.uint64), 6), 10 * RATE)
    episodes = [shown(filmed(rng, 5), part, filmed(rng, 60)) for part in (flicker, np.zeros_like(flicker))]
    assert find_repeats(episodes) == ([{}, {}], [])


@pytest.mark.parametrize(("pieces", "found"), [(3, False), (4, True)])
def test_four_pieces_of_earlier_episodes_are_a_recap_but_logos_that_most_begin_with_are_none(
    pieces: int, found: bool
) -> None:
    rng = np.random.default_rng(6)
    logos, bodies = [filmed(rng, 2) for _ in range(4)], [filmed(rng, 120) for _ in range(4)]
    starts = [[part for logo in logos for part in (logo, filmed(rng, 1))] for _ in bodies]
    recap = [bodies[0][at : at + 3 * RATE] for at in range(1000, 1000 + 200 * pieces, 200)]
    repeats, _ = find_repeats([shown(*start, *(recap * (i == 3)), bodies[i]) for i, start in enumerate(starts)])
    assert [list(one) for one in repeats] == [[], [], [], ["recap"] * found]
    if found:
        assert ends(repeats[3]["recap"]) == pytest.approx([12, 24], abs=0.5)


@pytest.mark.parametrize("episodes", [[], [300]])
def test_one_episode_or_none_repeats_nothing(episodes: Sequence[int]) -> None:
    rng = np.random.default_rng(3)
    assert find_repeats([shown(filmed(rng, seconds)) for seconds in episodes]) == ([{}] * len(episodes), [])


def test_a_hash_survives_other_sizes_noise_and_bars_that_are_always_black_and_a_flat_picture_has_none() -> None:
    rng = np.random.default_rng(4)
    coarse = rng.integers(60, 200, (20, 5, 8, 3)).astype(np.uint8)
    pictures = np.stack([cv2.resize(one, (80, 45), interpolation=cv2.INTER_CUBIC) for one in coarse])
    hashes = PictureHashes().of(pictures)
    smaller = np.stack([cv2.resize(one, (64, 36), interpolation=cv2.INTER_AREA) for one in pictures])
    noisy = np.clip(pictures + rng.normal(0, 4, pictures.shape), 0, 255).astype(np.uint8)
    barred = np.pad(pictures, ((0, 0), (9, 9), (0, 0), (0, 0)))
    for others in (smaller, noisy, barred):
        assert np.bitwise_count(hashes ^ PictureHashes().of(others)).max() <= 10
    different = np.bitwise_count(hashes[:, None] ^ hashes)[~np.eye(20, dtype=bool)]
    assert different.min() > 10
    dark = np.full_like(pictures[:2], 20)
    dark[:, 10:30, 20:50] = pictures[:2, 10:30, 20:50]
    whole = PictureHashes()
    assert whole.of(pictures).tolist() == hashes.tolist()
    assert whole.of(dark).tolist() == PictureHashes().of(np.concatenate([pictures, dark]))[-2:].tolist()
    assert PictureHashes().of(np.full((3, 45, 80, 3), 128, np.uint8)).tolist() == [0, 0, 0]
    assert PictureHashes().of(np.zeros((3, 45, 80, 3), np.uint8)).tolist() == [0, 0, 0]
