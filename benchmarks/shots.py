"""Shot detectors on videos with known transitions: transitions detected, false alarms, and time.

    python benchmarks/shots.py VIDEO [VIDEO ...] [--known FILE ...]

Videos with known transitions are made by joining sections of the videos and of generated ones. A section lies within
one shot: at least 8 frames from any boundary that TransNetV2, at a low threshold, or a large difference between two
frames suggests. It is shown through a window that stands still, pans, zooms or shakes, or in changing light. The joins
are hard cuts, dissolves of 6 to 60 frames, fades through a color and wipes; flashes are within sections. The default
detector is tuned on the first half of each video's sections; all detectors are measured on the second.
"""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from measure import Command, command_line, compare, plain, python, save, show
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import chi2  # type: ignore[import-untyped]

from pipelines.datasets.synthetic import SyntheticVideoSettings, write_video
from pipelines.video.reader import VideoReader
from pipelines.video.shots import ReaderSettings

Images = NDArray[np.uint8]  # (N, height, width, 3) RGB

WIDTH, HEIGHT, RATE = 320, 180, 24
SHORTEST, LONGEST = 34, 150
"""Frames per section."""
UNLIKE = 20
"""Minimum mean difference, out of 255, of two neighboring sections at their joint."""
CLEAN = 16
"""Minimum number of frames of each section outside transitions."""


# --- sections ------------------------------------------------------------------------------------------------------


DRAWN = SyntheticVideoSettings(16, 28, (2, 4), (2.5, 7.0), width=374, height=210, dissolves=0)
"""The generated video from which sections are taken, with hard cuts only."""


def sections(video: Path, known: Sequence[tuple[int, int]], folder: Path, *, search: bool = True) -> list[Images]:
    """Return the sections of a video in order: frames within one shot, away from the known transitions.

    Args:
        folder: for the decoded frames.
        search: also stay away from possible boundaries that are not known.
    """
    width, height = WIDTH * 7 // 6, HEIGHT * 7 // 6  # larger than the window, so that it can move
    path = folder / f"{video.stem}.rgb"
    reformatter = VideoReformatter()
    with av.open(str(video)) as container, path.open("wb") as raw:
        for frame in container.decode(video=0):
            raw.write(reformatter.reformat(frame, width, height, "rgb24", interpolation="AREA").to_ndarray().tobytes())
    frames: Images = np.memmap(path, np.uint8, "r").reshape(-1, height, width, 3)
    parts: list[Images] = []
    for start, end in within_shots(frames, known, search):
        pieces = max(1, math.ceil((end - start) / LONGEST))
        for a, b in itertools.pairwise(np.linspace(start, end, pieces + 1).astype(int).tolist()):
            if b - a >= SHORTEST:
                parts.append(frames[a:b])
    return parts


def within_shots(
    frames: Images, known: Sequence[tuple[int, int]], search: bool, margin: int = 8
) -> list[tuple[int, int]]:
    """Ranges of frames, each within a shot and at least ``margin`` frames from its boundaries.

    In a search, frames also count as boundaries if TransNet V2, or the difference from the frame before, suggests so in
    the least.
    """
    doubtful = np.zeros(len(frames), bool)
    if search:
        small = np.stack([cv2.resize(frame, (48, 27), interpolation=cv2.INTER_AREA) for frame in frames])
        doubtful |= transnetv2_scores(small) > 0.1
        doubtful[1:] |= np.abs(np.diff(small.astype(np.int16), axis=0)).mean((1, 2, 3)) > 25
    for start, end in known:
        doubtful[start:end] = True
    wide = np.convolve(doubtful, np.ones(2 * margin + 1), "same") > 0
    edges = np.flatnonzero(np.diff(np.concatenate([[1], wide, [1]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def transnetv2_scores(small: Images) -> NDArray[np.float32]:
    """Return the transition score of each frame of (N, 27, 48, 3)."""
    from pipelines.video.detectors import load_transnetv2  # optional dependency

    predict = load_transnetv2()
    padded = np.concatenate([small[:1].repeat(25, 0), small, small[-1:].repeat(100, 0)])
    scores = [predict(padded[at : at + 100])[25:75] for at in range(0, len(small), 50)]
    return np.concatenate(scores)[: len(small)]


# --- videos ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transition:
    """The frames ``[start_frame, end_frame)`` that belong to both shots or to neither; a cut, before ``start_frame``,
    has none."""

    kind: str  # cut, dissolve, fade or wipe
    start_frame: int
    end_frame: int


@dataclass(frozen=True)
class Video:
    """A generated video and its ground truth."""

    path: Path
    frames: int
    transitions: list[Transition]
    flashes: list[tuple[int, int]]  # frame ranges


MOVES = ("still", "still", "pan", "pan", "zoom", "shake", "light")


def through_window(section: Images, move: str, rng: Generator) -> Images:
    """Return the section through a moving window: (N, HEIGHT, WIDTH, 3)."""
    count, height, width, _ = section.shape
    time = np.linspace(0, 1, count)
    scale, center = np.full(count, rng.uniform(0.6, 0.85)), rng.uniform(0, 1, (1, 2)).repeat(count, 0)
    light = np.ones(count)
    if move == "pan":
        scale[:] = rng.uniform(0.5, 0.7)
        center = center + time[:, None] * (rng.uniform(0, 1, (1, 2)) - center)
        center[:, 0] = rng.permutation([rng.uniform(0, 0.3), rng.uniform(0.7, 1)]) @ [1 - time, time]
    elif move == "zoom":
        scale = np.asarray(rng.permutation([rng.uniform(0.45, 0.6), rng.uniform(0.7, 0.85)]) @ [1 - time, time])
    elif move == "shake":
        path = rng.normal(0, 0.05, (count, 2)).cumsum(0)
        center = np.clip(0.5 + cv2.GaussianBlur(path, (1, 9), 2), 0, 1)
    elif move == "light":
        low, middle, length = rng.uniform(0.2, 0.6), rng.uniform(0.3, 0.7), rng.uniform(0.1, 0.5)
        light = 1 - (1 - low) * np.clip((time - middle) / length + 0.5, 0, 1)
        light = light if rng.random() < 0.5 else light[::-1]
    shown = np.empty((count, HEIGHT, WIDTH, 3), np.uint8)
    for i, frame in enumerate(section):
        w, h = width * scale[i], height * scale[i]
        x, y = center[i] * (width - w, height - h)
        window = np.array([[w / WIDTH, 0, x], [0, h / HEIGHT, y]])
        image = cv2.warpAffine(frame, window, (WIDTH, HEIGHT), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
        shown[i] = image if light[i] == 1 else cv2.convertScaleAbs(image, alpha=light[i])
    return shown


COLORS = ((0, 0, 0), (0, 0, 0), (0, 0, 0), (255, 255, 255), (200, 30, 20))


def joint(kind: str, before: Images, after: Images, rng: Generator) -> Images:
    """Return the frames of a transition between the end of one section and the beginning of the next, of equal
    length."""
    count = len(before)
    weight = np.arange(1, count + 1) / (count + 1)
    if rng.random() < 0.3:
        weight = weight * weight * (3 - 2 * weight)  # eased in and out
    if kind == "wipe":
        across = rng.random() < 0.7
        along = np.linspace(0, 1, WIDTH)[None, :, None] if across else np.linspace(0, 1, HEIGHT)[:, None, None]
        along = along if rng.random() < 0.5 else 1 - along
        masks = [np.clip((w - along) / 0.02, 0, 1) for w in weight]
        mixed = (a + m * (b.astype(np.float32) - a) for a, b, m in zip(before, after, masks, strict=True))
        return np.stack([image.astype(np.uint8) for image in mixed])
    return np.stack([cv2.addWeighted(a, 1 - w, b, w, 0) for a, b, w in zip(before, after, weight, strict=True)])


def flashed(images: Images, rng: Generator) -> Images:
    """Return a few frames in the light of a flash, which starts at once, and ends at once or fades."""
    share = np.full(len(images), rng.uniform(0.6, 1.0))
    if rng.random() < 0.5:
        share *= np.linspace(1, 0.3, len(images))
    return np.stack([cv2.addWeighted(p, 1 - s, np.full_like(p, 255), s, 0) for p, s in zip(images, share, strict=True)])


def make_video(
    path: Path, parts: Sequence[Images], kinds: Sequence[str], moves: Sequence[str], flash: float, seed: int
) -> Video:
    """Join the sections in random order by random transitions of some kinds."""
    rng = np.random.default_rng(seed)
    order = shuffled(parts, rng)
    transitions: list[Transition] = []
    flashes: list[tuple[int, int]] = []
    at, kept = 0, np.empty((0, HEIGHT, WIDTH, 3), np.uint8)  # kept: the section before, from its first clean frame

    with encoding(path) as add:

        def write(images: Images) -> None:
            nonlocal at
            for image in images:
                add(image)
            at += len(images)

        for number, which in enumerate(order):
            images = through_window(parts[which], str(rng.choice(moves)), rng)
            if number == 0:
                kept = images
                continue
            kind = str(rng.choice(kinds))
            room = min(len(kept) - CLEAN, len(images) - CLEAN - 6)
            count = round(6 * 10 ** rng.uniform(0, 1))
            if kind != "cut" and room < 6:
                kind = "cut"
            count = 0 if kind == "cut" else max(6, min(count, room))
            middle: list[Images] = []
            if kind == "fade":
                color = np.empty_like(images[:1])
                color[:] = COLORS[rng.integers(len(COLORS))]
                plain_color = color.repeat(count, 0)
                middle = [
                    joint("fade", kept[-count:], plain_color, rng),
                    plain_color[: rng.integers(1, 13)],
                    joint("fade", plain_color, images[:count], rng),
                ]
            elif count:
                middle = [joint(kind, kept[-count:], images[:count], rng)]
            clean = kept[: len(kept) - count]
            if rng.random() < flash and len(clean) >= 24:
                length, start = int(rng.integers(1, 6)), int(rng.integers(8, len(clean) - 14))
                clean = np.concatenate(
                    [clean[:start], flashed(clean[start : start + length], rng), clean[start + length :]]
                )
                flashes.append((at + start, at + start + length))
            write(clean)
            start = at
            for piece in middle:
                write(piece)
            transitions.append(Transition(kind, start, at))
            kept = images[count:]
        write(kept)
    return Video(path, at, transitions, flashes)


def shuffled(parts: Sequence[Images], rng: Generator) -> list[int]:
    """Return a random order in which neighbors do not look alike, as two sections of one shot do."""
    looks = [[cv2.resize(s[i], (32, 18), interpolation=cv2.INTER_AREA).astype(float) for i in (0, -1)] for s in parts]
    left = rng.permutation(len(parts)).tolist()
    order = [left.pop()]
    while left:
        last = looks[order[-1]][1]
        unlike = (i for i in left if np.abs(looks[i][0] - last).mean() > UNLIKE)
        order.append(next(unlike, left[0]))
        left.remove(order[-1])
    return order


@contextmanager
def encoding(path: Path) -> Iterator[Callable[[NDArray[np.uint8]], None]]:
    """Return a function that adds an image to an H.264 file."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"preset": "veryfast", "crf": "23"})
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.thread_count = 1  # the number of threads changes what x264 writes
        yield lambda image: container.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
        container.mux(stream.encode())


# --- detections --------------------------------------------------------------------------------------------

OURS = "transitions"
"""The detector that reports how a shot ends; the others only report where."""
DETECTORS = (OURS, "adaptive", "content", "histogram", "hash", "threshold", "transnetv2")
NEAR = 2
"""Maximum distance in frames of a detected cut from the true one."""


def find(video: Path, detector: str) -> tuple[list[Transition], float]:
    """Return the transitions that a detector reports, and the processor time in seconds of reading the video with
    it."""
    start = time.process_time()
    shots = list(VideoReader(video, ReaderSettings(detector=detector, threads=1)))[:-1]
    taken = time.process_time() - start
    ends = [shot.transition or Transition("cut", shot.end_frame, shot.end_frame) for shot in shots]
    return [Transition(t.kind, t.start_frame, t.end_frame) for t in ends], taken


def count(video: Video, claims: Sequence[Transition], has_kinds: bool) -> Counter[str]:
    """Counts of transitions; each true one is matched to at most one claim of the detector.

    Keys: ``true KIND``, ``found KIND`` (true ones), ``claimed KIND``, ``right KIND`` (claims), ``exact cut`` (true ones
    detected at their frame), ``flashes called``, and ``false``, the claims without a true transition.
    """
    counts: Counter[str] = Counter(f"true {t.kind}" for t in video.transitions)
    left = list(video.transitions)
    for claim in claims:
        cut = next((t for t in left if t.kind == "cut" and abs(t.start_frame - claim.start_frame) <= NEAR), None)
        inside = [t for t in video.transitions if t.kind != "cut" and overlap(claim, t)]
        gradual = next((t for t in inside if t in left), None)
        if claim.kind == "cut" and cut is None and inside and has_kinds:
            continue  # right place, wrong kind: the transition counts as missed, but no cut as false
        kind = claim.kind if has_kinds or not inside else inside[0].kind
        match = cut if kind == "cut" else gradual
        counts[f"claimed {kind}"] += 1
        if match is not None:
            left.remove(match)
            counts[f"found {match.kind}"] += 1
            counts[f"right {kind}"] += kind == match.kind
            counts["exact cut"] += kind == "cut" and match.start_frame == claim.start_frame
        elif not inside:
            counts["false"] += 1
            counts["flashes called"] += any(overlap(claim, Transition("", *flash)) for flash in video.flashes)
    return counts


def overlap(one: Transition, other: Transition) -> bool:
    return one.start_frame <= other.end_frame + NEAR and other.start_frame - NEAR <= one.end_frame


def ratios(right: int, claimed: int, true: int) -> dict[str, float]:
    """Precision, recall and F1."""
    precision, recall = right / claimed if claimed else 1.0, right / true if true else 1.0
    return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / max(precision + recall, 1e-9)}


def figures(counts: Counter[str]) -> dict[str, Any]:
    """Precision, recall and F1 of cuts (frame-exact, and within ``NEAR``) and of each gradual transition."""
    gradual = {what: sum(counts[f"{what} {kind}"] for kind in GRADUAL) for what in ("true", "found", "claimed")}
    table = {
        "cut, exact": ratios(counts["exact cut"], counts["claimed cut"], counts["true cut"]),
        "cut": ratios(counts["right cut"], counts["claimed cut"], counts["true cut"]),
        "gradual": ratios(gradual["found"], gradual["claimed"], gradual["true"]),
    }
    for kind in GRADUAL:
        table[kind] = ratios(counts[f"right {kind}"], counts[f"claimed {kind}"], counts[f"true {kind}"])
    return {**table, "counts": dict(sorted(counts.items()))}


GRADUAL = ("dissolve", "fade", "wipe")
JOINTS = ("cut", "cut", "dissolve", "dissolve", "fade", "wipe")
MOVING = ("pan", "zoom", "shake", "light", "pan")


def make_videos(parts: Sequence[Images], count: int, seed: int, folder: Path) -> dict[str, list[Video]]:
    """Videos with all transitions; and for false alarms, hard cuts only, as filmed and with a moving camera."""
    kinds = {
        "transitions": (JOINTS, MOVES, 0.3),
        "as filmed": (("cut",), ("still",), 0.0),
        "moving": (("cut",), MOVING, 0.0),
    }
    videos_of: dict[str, list[Video]] = {}
    for name, (joints, moves, flash) in kinds.items():
        videos = 1 if name == "as filmed" else count
        paths = [folder / f"{name} {number} {seed}.mp4" for number in range(videos)]
        videos_of[name] = [make_video(path, parts, joints, moves, flash, seed + n) for n, path in enumerate(paths)]
    return videos_of


def judge(videos: dict[str, list[Video]], detector: str) -> dict[str, Any]:
    """Figures of a detector on the videos with transitions, its false alarms on the others, and its time."""
    result: dict[str, Any] = {}
    seconds = frames = 0.0
    for name, of_name in videos.items():
        counts: Counter[str] = Counter()
        for video in of_name:
            claims, taken = find(video.path, detector)
            counts += count(video, claims, detector == OURS)
            seconds, frames = seconds + taken, frames + video.frames
        minutes = sum(video.frames for video in of_name) / RATE / 60
        result[name] = figures(counts) if name == "transitions" else alarms(counts["false"], minutes)
    return {**result, "milliseconds a frame": 1000 * seconds / frames}


def alarms(count: int, minutes: float) -> dict[str, Any]:
    """Return the rate of false alarms, with the exact 95 % interval of a Poisson process."""
    low = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    interval = [float(10 * bound / minutes) for bound in (low, chi2.ppf(0.975, 2 * count + 2) / 2)]
    return {"in 10 minutes": 10 * count / minutes, "interval": interval, "false": count, "minutes": minutes}


READ = """
import sys
from pathlib import Path
from pipelines.video.reader import VideoReader
from pipelines.video.shots import ReaderSettings
for shot in VideoReader(Path(sys.argv[1]), ReaderSettings(detector=sys.argv[2], threads=1)):
    pass
"""


def show_half(name: str, results: dict[str, dict[str, Any]]) -> None:
    columns = ("cut, exact", "cut", *GRADUAL)
    print(f"\n{name}: precision / recall / F1 in percent; false alarms per 10 minutes as filmed and moving; time")
    print(
        f"{'':12}"
        + "".join(f"{column:>16}" for column in columns)
        + f"{'false alarms':>14}{'flashes':>9}{'ms/frame':>10}"
    )
    for detector, result in results.items():
        table = result["transitions"]
        cells = (" / ".join(f"{100 * v:.0f}" for v in table[column].values()) for column in columns)
        false = " / ".join(f"{result[of]['in 10 minutes']:.1f}" for of in ("as filmed", "moving"))
        flashes, time_taken = table["counts"].get("flashes called", 0), result["milliseconds a frame"]
        print(f"{detector:12}" + "".join(f"{c:>16}" for c in cells) + f"{false:>14}{flashes:>9}{time_taken:>10.2f}")


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("video", type=Path, nargs="+")
    parser.add_argument(
        "--known", type=Path, nargs="*", default=[], help="known transitions of each video, which sections avoid"
    )
    parser.add_argument("--detectors", nargs="+", default=DETECTORS, choices=DETECTORS)
    parser.add_argument("--videos", type=int, default=3, help="videos of each kind and half (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="runs for the time (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=16)
    arguments = parser.parse_args()
    halves: dict[str, list[Images]] = {"tuned on": [], "held out": []}
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        drawn = folder / "drawn.mp4"
        shots = write_video(drawn, DRAWN).shots
        sources = [sections(drawn, [(shot.start_frame, shot.start_frame + 1) for shot in shots], folder, search=False)]
        for video, known in itertools.zip_longest(arguments.video, arguments.known):
            sources.append(sections(video, [] if known is None else read_ranges(known), folder))
        for of_video in sources:
            halves["tuned on"] += of_video[: len(of_video) // 2]
            halves["held out"] += of_video[len(of_video) // 2 :]
        for number, (half, parts) in enumerate(halves.items()):
            videos = make_videos(parts, arguments.videos, arguments.seed + 1000 * number, folder)
            detectors = [OURS] if half == "tuned on" else arguments.detectors
            results[half] = {detector: judge(videos, detector) for detector in detectors}
            show_half(f"{half} ({len(parts)} sections)", results[half])
        read: dict[str, Command] = {d: python(READ, arguments.video[0], d) for d in ("adaptive", OURS)}
        times = compare(read, arguments.repeats)
        show(f"reading {arguments.video[0].name}, start-up included", times, "adaptive")
    save("shots", {**results, "videos": [video.name for video in arguments.video], "reading": plain(times)})


def read_ranges(path: Path) -> list[tuple[int, int]]:
    """Return the first two numbers of each line."""
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [(int(fields[0]), int(fields[1])) for fields in lines if fields]


if __name__ == "__main__":
    main()
