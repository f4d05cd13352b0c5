"""Downscaling of decoded YUV frames, without converting every full frame to RGB.

Most video is planar YUV 4:2:0 with 8 bits. Its planes are used in place, without a copy, and halved by 2 x 2 averages
until they are just large enough; only the small images that are needed are converted to RGB. This costs about a quarter
of a full conversion of each frame (``benchmarks/predict.py`` shows the shares).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from threading import local
from typing import Any, NamedTuple

import cv2
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import Colorspace, VideoReformatter
from numpy.typing import NDArray

from pipelines.video.containers import Orientation
from pipelines.video.images import TRANSFERS, to_sdr

Plane = NDArray[Any]  # uint8; uint16 in videos with a high dynamic range
RGBImage = NDArray[np.uint8]

# Thread pools do not pay off for images this small, and the cores are busy decoding.
cv2.setNumThreads(1)

_BYTE, _WORD = np.dtype(np.uint8), np.dtype("<u2")  # otherwise created for each array

# Images that shrink by more than this are resized by area averaging, others by interpolation.
_MUCH_SMALLER = 1.25

_DIRECT_FORMATS = ("yuv420p", "yuvj420p")
_DEEP_FORMAT = "yuv420p16le"
_LUMA_WEIGHTS = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}
# By FFmpeg's number (`AVColorSpace`).
_STANDARDS = {1: "bt709", 4: "bt601", 5: "bt601", 6: "bt601", 9: "bt2020", 10: "bt2020"}


class YUVImage(NamedTuple):
    """``y`` (H, W), ``u`` and ``v`` about (H/2, W/2), and the matrix (3, 4) that converts them to RGB. An image with a
    high dynamic range has a ``transfer`` function; its RGB is tone-mapped."""

    y: Plane
    u: Plane
    v: Plane
    to_rgb: NDArray[np.float32]
    transfer: str | None = None

    @property
    def nbytes(self) -> int:
        return self.y.nbytes + self.u.nbytes + self.v.nbytes


class FrameReader:
    """Converts decoded frames to images whose shorter side has at least ``lines`` pixels, as far as the video's has.
    Thread-safe once it has read the video's first frame."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self._thread = PerThread()
        self._size: tuple[int, int] | None = None
        self._format = "yuv420p"

    def read(self, frame: VideoFrame) -> YUVImage:
        """Return the frame, halved as long as its shorter side has at least ``lines`` pixels. The planes may be views
        of the decoder's buffers, which stay valid as long as they are referenced. If the frame size changes within a
        video, later frames are resized to the first size."""
        size = frame.width, frame.height
        if self._size is None:
            self._size = size
            if frame.color_trc in TRANSFERS:
                self._format = _DEEP_FORMAT
        if size != self._size:
            frame = resize_frame(self._thread.reformatter, frame, *self._size)
        standard, transfer = _color_standard(frame), TRANSFERS.get(frame.color_trc)
        if frame.format.name in _DIRECT_FORMATS and self._format != _DEEP_FORMAT:
            image = _image(frame, standard, transfer)
        else:
            small = _halved(frame.width, frame.height, self.lines)
            small_frame = resize_frame(self._thread.reformatter, frame, *small, self._format)
            image = _image(small_frame, "bt601" if _is_rgb(frame) else standard, transfer)
        while min(image.y.shape) // 2 >= self.lines:
            image = halve(image)
        return image


def _is_rgb(frame: VideoFrame) -> bool:
    return bool(frame.format.is_rgb or frame.format.has_palette)


def resize_frame(
    reformatter: VideoReformatter, frame: VideoFrame, width: int, height: int, pixel_format: str | None = None
) -> VideoFrame:
    """Resize a frame by area averages. RGB becomes BT.601, whatever the size, if the pixel format is YUV; the color
    standard of YUV does not change."""
    if _is_rgb(frame):
        colors = {"dst_colorspace": Colorspace.ITU601}
    else:  # FFmpeg's scaler refuses frames with some standards, even if it does not have to convert them
        colors = {"src_colorspace": Colorspace.ITU709, "dst_colorspace": Colorspace.ITU709}
    resized = reformatter.reformat(frame, width, height, pixel_format, interpolation="AREA", **colors)
    if "src_colorspace" in colors:
        resized.colorspace = frame.colorspace
    return resized


class PerThread(local):
    """Has a converter in each thread."""

    def __init__(self) -> None:
        self.reformatter = VideoReformatter()


def held_size(width: int, height: int, lines: int) -> int:
    """Return about how many bytes the :class:`YUVImage` of a frame with this size has."""
    width, height = _halved(width, height, lines)
    return width * height * 3 // 2


def _halved(width: int, height: int, lines: int) -> tuple[int, int]:
    while min(width, height) // 2 >= lines:
        width, height = width // 2, height // 2
    return width, height


def halve(image: YUVImage) -> YUVImage:
    """Halve width and height by 2 x 2 means; a size of one pixel stays."""
    return YUVImage(_halve(image.y), _halve(image.u), _halve(image.v), image.to_rgb, image.transfer)


def halve_once(image: YUVImage, long_side: int) -> YUVImage:
    """Take the first step of :func:`small_rgb`: halve the planes that it would halve."""
    y, u, v = (_halve(p) if n else p for p, n in zip(image[:3], _halvings(image, long_side), strict=True))
    return YUVImage(y, u, v, image.to_rgb, image.transfer)


def small_rgb(images: Sequence[YUVImage], long_side: int) -> RGBImage:
    """Return RGB images (N, H, W, 3) uint8 for shot detectors, halved while the longer side keeps ``long_side`` pixels.
    The images have the same size. They are processed together, because each call of OpenCV releases and takes the
    global interpreter lock, which costs more than the work on one small image."""
    first, times = images[0], _halvings(images[0], long_side)
    planes = zip(*(image[:3] for image in images), strict=True)
    y, u, v = (_halve_repeatedly(np.stack(same), n) for same, n in zip(planes, times, strict=True))
    if y.shape != u.shape or any(i.to_rgb is not first.to_rgb or i.transfer != first.transfer for i in images):
        return np.stack([rgb(image._replace(y=y[i], u=u[i], v=v[i])) for i, image in enumerate(images)])
    # The conversion is per pixel, so that the images can be stacked into one tall image.
    width = y.shape[2]
    tall = first._replace(y=y.reshape(-1, width), u=u.reshape(-1, width), v=v.reshape(-1, width))
    return rgb(tall).reshape(*y.shape, 3)


def rgb(image: YUVImage, size: tuple[int, int] | None = None) -> RGBImage:
    """Convert an image to RGB, (H, W, 3) uint8, resized to (width, height) if ``size`` is not None."""
    height, width = image.y.shape
    # Resized first: the planes have half as many samples as an RGB image.
    yuv = cv2.merge([_resize(plane, size or (width, height)) for plane in (image.y, image.u, image.v)])
    codes = cv2.transform(yuv, image.to_rgb)
    if image.transfer is not None:
        return to_sdr(codes, image.transfer)
    return np.asarray(codes >> 8 if codes.dtype == _WORD else codes, np.uint8)


def upright(image: YUVImage, size: tuple[int, int], orientation: Orientation) -> RGBImage:
    """Convert an image to RGB, upright, of ``size`` (width, height) then: (H, W, 3) uint8."""
    width, height = size
    stored = rgb(image, (height, width) if orientation.turns % 2 else size)
    return np.ascontiguousarray(np.rot90(stored[:, ::-1] if orientation.mirrored else stored, -orientation.turns))


def _image(frame: VideoFrame, standard: str, transfer: str | None) -> YUVImage:
    depth = _WORD if frame.format.name == _DEEP_FORMAT else _BYTE
    planes: Any = frame.planes  # NumPy's type stubs do not know that PyAV's planes support the buffer protocol
    y, u, v = (
        np.ndarray((plane.height, plane.width), depth, plane, 0, (plane.line_size, depth.itemsize)) for plane in planes
    )
    is_full_range = frame.format.name.startswith("yuvj") or frame.color_range == 2
    return YUVImage(y, u, v, _matrix(standard, is_full_range, depth.itemsize), transfer)


def _resize(plane: Plane, size: tuple[int, int]) -> Plane:
    if plane.shape == size[::-1]:
        return plane
    # For small factors both give nearly the same, and area averaging over fractional pixels takes ten times as long.
    shrinks = size[0] * _MUCH_SMALLER < plane.shape[1] or size[1] * _MUCH_SMALLER < plane.shape[0]
    method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(plane, size, interpolation=method), plane.dtype)


def _halve(plane: Plane) -> Plane:
    height, width = plane.shape
    # OpenCV's vectorized 2 x 2 mean needs even sizes; an odd last row or column is left out.
    if (height % 2 and height > 1) or (width % 2 and width > 1):
        plane = plane[: max(1, height // 2 * 2), : max(1, width // 2 * 2)]
    return np.asarray(cv2.resize(plane, _half(plane.shape)[::-1], interpolation=cv2.INTER_AREA), plane.dtype)


def _halve_repeatedly(planes: Plane, times: int) -> Plane:
    """Halve planes (N, H, W) ``times`` times."""
    for _ in range(times):
        N, height, width = planes.shape
        even = np.ascontiguousarray(planes[:, : max(1, height // 2 * 2), : max(1, width // 2 * 2)])
        height, width = _half((height, width))
        tall = cv2.resize(even.reshape(-1, even.shape[2]), (width, N * height), interpolation=cv2.INTER_AREA)
        planes = np.asarray(tall, planes.dtype).reshape(N, height, width)
    return planes


def _halvings(image: YUVImage, long_side: int) -> tuple[int, int, int]:
    """Return how many times :func:`small_rgb` halves y, u and v."""
    size, color_size = image.y.shape, image.u.shape
    luma = chroma = 0
    while max(size) // 2 >= long_side:
        size, luma = _half(size), luma + 1
    while color_size[0] // 2 >= size[0] and color_size[1] // 2 >= size[1]:  # half the size: halved once less
        color_size, chroma = _half(color_size), chroma + 1
    return luma, chroma, chroma


def _half(size: tuple[int, ...]) -> tuple[int, int]:
    return max(1, size[0] // 2), max(1, size[1] // 2)


def _color_standard(frame: VideoFrame) -> str:
    # By convention, untagged high-definition video is BT.709, all other BT.601.
    is_large = frame.height > 576 or frame.width > 1024
    untagged = "bt2020" if frame.color_trc in TRANSFERS else "bt709" if is_large else "bt601"
    return _STANDARDS.get(int(frame.colorspace), untagged)


@cache
def _matrix(standard: str, full_range: bool, depth: int = 1) -> NDArray[np.float32]:
    """Return (3, 4): RGB = matrix @ (Y, U, V, 1), from the luma weights of a standard (ITU-T H.273); ``depth`` is the
    number of bytes of a sample."""
    kr, kb = _LUMA_WEIGHTS[standard]
    kg = 1.0 - kr - kb
    linear = np.array(
        [[1, 0, 2 * (1 - kr)], [1, -2 * kb * (1 - kb) / kg, -2 * kr * (1 - kr) / kg], [1, 2 * (1 - kb), 0]]
    )
    scale, black = (np.ones(3), 0.0) if full_range else (np.array([255 / 219, 255 / 224, 255 / 224]), 16.0)
    linear = linear * scale
    # FFmpeg's scaler truncates where OpenCV rounds. With 0.5 less, noise near black stays black and without color,
    # which matters for the hue that shot detectors use.
    offset = -linear @ np.array([black, 128.0, 128.0]) - 0.5
    if depth == 2:  # white, 255, is 65535, but samples are just shifted
        linear, offset = linear * 257 / 256, (offset + 0.5) * 257
    return np.concatenate([linear, offset[:, None]], axis=1).astype(np.float32)
