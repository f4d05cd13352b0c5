"""Small pictures out of decoded frames, without a colour conversion of every frame.

Most video is planar YUV 4:2:0 with 8 bits. Its planes are read where the decoder left them and halved by 2 x 2
averages until they are just large enough; colours are computed only of the pictures that are looked at. This costs
about a quarter of a full conversion of each frame (``benchmarks/predict.py`` shows the shares).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from threading import local

import cv2
import numpy as np
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane
from av.video.reformatter import Colorspace, VideoReformatter
from numpy.typing import NDArray

Plane = NDArray[np.uint8]
Picture = NDArray[np.uint8]

# Pools of threads cost more than they bring on pictures this small, and the cores are busy decoding.
cv2.setNumThreads(1)

# Pictures that shrink by more than this are averaged over areas, others interpolated.
_MUCH_SMALLER = 1.25

_DIRECT_FORMATS = ("yuv420p", "yuvj420p")
_LUMA_WEIGHTS = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}


@dataclass(frozen=True)
class YUVPicture:
    """One picture as planes: ``y`` (H, W), ``u`` and ``v`` about (H/2, W/2), and the matrix (3, 4) from them to RGB."""

    y: Plane
    u: Plane
    v: Plane
    to_rgb: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        return self.y.nbytes + self.u.nbytes + self.v.nbytes


class FrameReader:
    """Turns decoded frames into :class:`YUVPicture` of at least ``lines`` lines where the film has them.

    Several threads may use it once it has read the film's first frame.
    """

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self._own = _OfThread()
        self._size: tuple[int, int] | None = None

    def read(self, frame: VideoFrame) -> YUVPicture:
        """The frame, halved while its shorter side keeps ``lines`` pixels.

        The planes may be views of the decoder's buffers: they stay valid as long as they are referenced. A film that
        changes its size on the way keeps the first, so that pictures can be compared.
        """
        self._size = self._size or (frame.width, frame.height)
        if (frame.width, frame.height) != self._size:
            frame = self._own.reformatter.reformat(frame, *self._size, interpolation="AREA")
        if frame.format.name in _DIRECT_FORMATS:
            picture = _picture(frame, _matrix(_colour_standard(frame), _is_full_range(frame)))
        else:
            picture = self._convert(frame)
        while min(picture.y.shape) // 2 >= self.lines:
            picture = halve(picture)
        return picture

    def _convert(self, frame: VideoFrame) -> YUVPicture:
        width, height = frame.width, frame.height
        while min(width, height) // 2 >= self.lines:
            width, height = width // 2, height // 2
        if frame.format.is_rgb or frame.format.has_palette:  # FFmpeg's scaler makes BT.601 of it, whatever its size
            small = self._own.reformatter.reformat(
                frame, width, height, "yuv420p", dst_colorspace=Colorspace.ITU601, interpolation="AREA"
            )
            return _picture(small, _matrix("bt601", _is_full_range(small)))
        small = self._own.reformatter.reformat(frame, width, height, "yuv420p", interpolation="AREA")
        # By the frame itself: a film in high definition that was scaled down has its colours still.
        return _picture(small, _matrix(_colour_standard(frame), _is_full_range(small)))


class _OfThread(local):
    def __init__(self) -> None:
        self.reformatter = VideoReformatter()


def held_size(width: int, height: int, lines: int) -> int:
    """Bytes of what :class:`FrameReader` makes of a frame of this size, about."""
    while min(width, height) // 2 >= lines:
        width, height = width // 2, height // 2
    return width * height * 3 // 2


def halve(picture: YUVPicture) -> YUVPicture:
    """Half the width and height, each pixel the mean of four (a picture one pixel wide or high stays so)."""
    y, u, v = (_halve_plane(plane) for plane in (picture.y, picture.u, picture.v))
    return YUVPicture(y, u, v, picture.to_rgb)


def small_rgb(pictures: Sequence[YUVPicture], long_side: int) -> Picture:
    """The pictures in colour, halved while their longer side keeps ``long_side`` pixels: what a shot detector looks at.

    All of one size, together (N, H, W, 3) uint8. They are worked on together because each call of OpenCV hands
    Python's lock to another thread and takes it back, which costs more than the work on so small a picture.
    """
    size = pictures[0].y.shape
    halvings = 0
    while max(size) // 2 >= long_side:
        size = _half(size)
        halvings += 1
    y = _halved([picture.y for picture in pictures], halvings)
    colour, colour_halvings = pictures[0].u.shape, 0
    while colour[0] // 2 >= size[0] and colour[1] // 2 >= size[1]:  # half the size already: halved once less
        colour = _half(colour)
        colour_halvings += 1
    u = _halved([picture.u for picture in pictures], colour_halvings)
    v = _halved([picture.v for picture in pictures], colour_halvings)
    to_rgb = pictures[0].to_rgb
    if colour != size or any(picture.to_rgb is not to_rgb for picture in pictures):
        return np.stack([rgb(YUVPicture(y[i], u[i], v[i], pictures[i].to_rgb)) for i in range(len(pictures))])
    # Nothing here looks at neighbouring pixels, so that the pictures may stand on top of each other.
    tall = YUVPicture(y.reshape(-1, size[1]), u.reshape(-1, size[1]), v.reshape(-1, size[1]), to_rgb)
    return rgb(tall).reshape(len(pictures), *size, 3)


def rgb(picture: YUVPicture) -> Picture:
    """The picture in colour, (H, W, 3) uint8."""
    height, width = picture.y.shape
    u, v = picture.u, picture.v
    if u.shape != picture.y.shape:
        u, v = (cv2.resize(p, (width, height), interpolation=cv2.INTER_LINEAR) for p in (u, v))
    return np.asarray(cv2.transform(cv2.merge((picture.y, u, v)), picture.to_rgb), np.uint8)


def upright(picture: Picture, size: tuple[int, int], quarter_turns: int) -> Picture:
    """The picture turned clockwise by quarter turns, at ``size`` = (width, height): (height, width, 3) uint8."""
    turned = np.rot90(picture, -quarter_turns) if quarter_turns else picture
    # A little less is nearly the same either way, and means over areas that are no whole pixels take ten times as long.
    shrinks = size[0] * _MUCH_SMALLER < turned.shape[1] or size[1] * _MUCH_SMALLER < turned.shape[0]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(np.ascontiguousarray(turned), size, interpolation=how), np.uint8)


def shown_size(width: int, height: int, pixel_aspect: float, lines: int) -> tuple[int, int]:
    """(width, height) at which an upright picture with such pixels is shown with at most ``lines`` lines."""
    shown_height = min(height, lines)
    return max(1, round(width * pixel_aspect * shown_height / height)), shown_height


def _picture(frame: VideoFrame, to_rgb: NDArray[np.float32]) -> YUVPicture:
    y, u, v = (_plane(plane) for plane in frame.planes)
    return YUVPicture(y, u, v, to_rgb)


def _plane(plane: VideoPlane) -> Plane:
    # The type stubs of NumPy do not know that PyAV's planes are buffers.
    lines = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)  # type: ignore[call-overload]
    return lines[:, : plane.width]  # type: ignore[no-any-return]


def _halve_plane(plane: Plane, into: Plane | None = None) -> Plane:
    height, width = plane.shape
    if height % 2 or width % 2:
        # Even sizes take OpenCV's vectorised 2 x 2 mean; an odd last row or column is left out.
        plane = plane[: max(1, height // 2 * 2), : max(1, width // 2 * 2)]
    return np.asarray(cv2.resize(plane, _half((height, width))[::-1], dst=into, interpolation=cv2.INTER_AREA), np.uint8)


def _halved(planes: Sequence[Plane], times: int) -> Plane:
    """Planes of one size, halved so many times, as (N, H, W)."""
    if not times:
        return np.stack(planes)
    many = np.empty((len(planes), *_half(planes[0].shape)), np.uint8)
    for plane, into in zip(planes, many, strict=True):
        _halve_plane(plane, into)
    for _ in range(times - 1):
        N, height, width = many.shape
        even = np.ascontiguousarray(many[:, : max(1, height // 2 * 2), : max(1, width // 2 * 2)])
        half = _half((height, width))
        tall = even.reshape(-1, even.shape[2])
        many = np.asarray(cv2.resize(tall, (half[1], N * half[0]), interpolation=cv2.INTER_AREA), np.uint8).reshape(
            N, *half
        )
    return many


def _half(size: tuple[int, ...]) -> tuple[int, int]:
    return max(1, size[0] // 2), max(1, size[1] // 2)


def _is_full_range(frame: VideoFrame) -> bool:
    return frame.format.name.startswith("yuvj") or frame.color_range == 2


def _colour_standard(frame: VideoFrame) -> str:
    match int(frame.colorspace):
        case Colorspace.ITU709:
            return "bt709"
        case 9 | 10:
            return "bt2020"
        case 4 | 5 | 6 | 7:
            return "bt601"
    # Untagged: high-definition video is BT.709 by custom, the rest BT.601.
    return "bt709" if frame.height > 576 or frame.width > 1024 else "bt601"


@cache
def _matrix(standard: str, full_range: bool) -> NDArray[np.float32]:
    """(3, 4): RGB = matrix @ (Y, U, V, 1), from the luma weights of ITU-R BT.601, BT.709 or BT.2020."""
    kr, kb = _LUMA_WEIGHTS[standard]
    kg = 1.0 - kr - kb
    linear = np.array(
        [[1, 0, 2 * (1 - kr)], [1, -2 * kb * (1 - kb) / kg, -2 * kr * (1 - kr) / kg], [1, 2 * (1 - kb), 0]]
    )
    if full_range:
        scale, black = np.ones(3), 0.0
    else:
        scale, black = np.array([255 / 219, 255 / 224, 255 / 224]), 16.0
    linear = linear * scale
    # FFmpeg's scaler truncates where OpenCV rounds; with its half less, near-black noise stays black and colourless,
    # which the hue of a shot detector depends on.
    offset = -linear @ np.array([black, 128.0, 128.0]) - 0.5
    return np.concatenate([linear, offset[:, None]], axis=1).astype(np.float32)
