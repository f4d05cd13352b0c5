"""Images of decoded frames: downscaled, in the standard range, as JPEG.

The planes of frames are halved in place by 2 x 2 averages until they are just large enough; only the small images that
are needed are converted to RGB, at about a quarter of the cost of converting full frames.

High dynamic range (PQ and HLG, ITU-R BT.2100): light up to a half of diffuse white, 203 cd/m² (BT.2408), is shown as
standard video shows it; what is brighter is compressed by the curve of BT.2390, the same for all frames.
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
from PIL import Image

from pipelines.video.containers import Orientation

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
            times = _halvings_to(self.lines, min(frame.width, frame.height))
            small = frame.width >> times, frame.height >> times
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
    """Resize a frame by area averages. RGB becomes BT.601 if the pixel format is YUV; the standard of YUV stays."""
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
    times = _halvings_to(lines, min(width, height))
    return (width >> times) * (height >> times) * 3 // 2


def _halvings_to(least: int, size: int) -> int:
    """Return how many times a size can be halved so that at least so much is left; 0 for a smaller one."""
    return max(1, size // least).bit_length() - 1


def halve(image: YUVImage) -> YUVImage:
    """Halve width and height by 2 x 2 means; a size of one pixel stays."""
    return YUVImage(_halve(image.y), _halve(image.u), _halve(image.v), image.to_rgb, image.transfer)


def small_rgb(images: Sequence[YUVImage], long_side: int) -> RGBImage:
    """Return RGB images (N, H, W, 3) uint8 for shot detectors, of images of one size, halved while the longer side
    keeps ``long_side`` pixels. All are processed together, because each call of OpenCV takes the interpreter lock."""
    first = images[0]
    luma, chroma = _halvings(first.y.shape, first.u.shape, long_side)
    y = _halve_all([image.y for image in images], luma)
    u, v = _halve_all([image.u for image in images], chroma), _halve_all([image.v for image in images], chroma)
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


def _even(planes: Plane) -> Plane:
    """Leave out an odd last row or column of planes (..., H, W): OpenCV's vectorized 2 x 2 mean needs even sizes."""
    height, width = planes.shape[-2:]
    return planes[..., : max(1, height // 2 * 2), : max(1, width // 2 * 2)] if height % 2 or width % 2 else planes


def _halve(plane: Plane) -> Plane:
    height, width = plane.shape
    size = max(1, width // 2), max(1, height // 2)
    return np.asarray(cv2.resize(_even(plane), size, interpolation=cv2.INTER_AREA), plane.dtype)


def _halve_all(planes: Sequence[Plane], times: int) -> Plane:
    """Halve planes of one size repeatedly: (N, H, W). From the first time on all together."""
    if not times:
        return np.stack(planes)
    height, width = planes[0].shape
    size = max(1, width // 2), max(1, height // 2)
    halved = np.empty((len(planes), *size[::-1]), planes[0].dtype)
    for plane, half in zip(planes, halved, strict=True):
        cv2.resize(_even(plane), size, half, 0, 0, cv2.INTER_AREA)
    for _ in range(times - 1):
        even = np.ascontiguousarray(_even(halved))
        N, height, width = len(halved), max(1, halved.shape[1] // 2), max(1, halved.shape[2] // 2)
        tall = cv2.resize(even.reshape(-1, even.shape[2]), (width, N * height), interpolation=cv2.INTER_AREA)
        halved = np.asarray(tall, halved.dtype).reshape(N, height, width)
    return halved


@cache
def _halvings(size: tuple[int, ...], color_size: tuple[int, ...], long_side: int) -> tuple[int, int]:
    """Return how many times :func:`small_rgb` halves luma, and color, which has half the size, once less."""
    luma = _halvings_to(long_side, max(size))
    sides = (max(1, side >> luma) for side in size)
    return luma, min(_halvings_to(side, color) for side, color in zip(sides, color_size, strict=True))


def _color_standard(frame: VideoFrame) -> str:
    # By convention, untagged high-definition video is BT.709, all other BT.601.
    is_large = frame.height > 576 or frame.width > 1024
    untagged = "bt2020" if frame.color_trc in TRANSFERS else "bt709" if is_large else "bt601"
    return _STANDARDS.get(int(frame.colorspace), untagged)


@cache
def _matrix(standard: str, full_range: bool, depth: int = 1) -> NDArray[np.float32]:
    """Return (3, 4): RGB = matrix @ (Y, U, V, 1), of a standard (ITU-T H.273), for samples of ``depth`` bytes."""
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


# --- in and out -------------------------------------------------------------------------------------------------------


def to_jpeg(image: NDArray[np.uint8], quality: int) -> bytes:
    """Encode an image (H, W, 3) uint8 RGB as JPEG. Raises ValueError for a size that JPEG does not allow."""
    encoded, jpeg = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not encoded:
        raise ValueError(f"{image.shape[1]} x {image.shape[0]} pixels cannot be a JPEG")
    return jpeg.tobytes()


def from_jpeg(jpeg: bytes) -> NDArray[np.uint8]:
    """Decode a JPEG to (H, W, 3) uint8 RGB. Raises ValueError when it cannot be decoded."""
    try:
        image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR_RGB)
    except cv2.error:  # such as an impossible size
        image = None
    if image is None:
        raise ValueError("not a JPEG that can be decoded")
    return np.asarray(image, np.uint8)


def resize_to_square(image: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Squeeze or stretch an image (H, W, 3) to (size, size, 3)."""
    # Below a factor of two bilinear interpolation reads nearly every pixel, in a quarter of the time of area averaging.
    method = cv2.INTER_AREA if max(image.shape[:2]) > 2 * size else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (size, size), interpolation=method), np.uint8)


def resize_and_crop(image: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Return the center square of an image (H, W, 3), its shorter side resized to 8/7 of ``size``, bicubic, as the
    paper's release does at test time by torchvision and Pillow: (size, size, 3)."""
    height, width = image.shape[:2]
    shorter = round(size * 256 / 224)
    scaled = (shorter, shorter * height // width) if width <= height else (shorter * width // height, shorter)
    left, top = (round((side - size) / 2) for side in scaled)
    resized = Image.fromarray(image).resize(scaled, Image.Resampling.BICUBIC)
    return np.asarray(resized.crop((left, top, left + size, top + size)), np.uint8)


# --- high dynamic range -----------------------------------------------------------------------------------------------

TRANSFERS = {16: "pq", 18: "hlg"}
"""Transfer functions with a high dynamic range, by FFmpeg's number (`AVColorTransferCharacteristic`)."""

# In cd/m²: diffuse white, and the brightest highlights of masters and HLG displays. What is brighter becomes white.
_WHITE, _PEAK = 203.0, 1000.0
_OOTF_GAMMA = 1.2  # of HLG at this peak
_DISPLAY_GAMMA = 2.4  # BT.1886
_LUMINANCE = np.array([[0.2627, 0.6780, 0.0593]], np.float32)
_BT2020_TO_BT709 = np.array(  # linear light, BT.2087
    [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]], np.float32
)

Floats = NDArray[np.float64]

_ROWS = 256  # converted together: as light, a frame of 8K would take more than a gigabyte


def to_sdr(codes: NDArray[np.uint8] | NDArray[np.uint16], transfer: str) -> NDArray[np.uint8]:
    """Convert nonlinear RGB (H, W, 3) of BT.2020 with one of the `TRANSFERS` to RGB of BT.709."""
    image = np.empty(codes.shape, np.uint8)
    for top in range(0, len(codes), _ROWS):
        light = _linear(transfer, np.iinfo(codes.dtype).max)[codes[top : top + _ROWS]]
        if transfer == "hlg":  # the opto-optical transfer function, from the light of the scene to a display's
            light *= cv2.pow(cv2.transform(light, _LUMINANCE), _OOTF_GAMMA - 1)[..., None]
            light = _tone_mapped()[(cv2.sqrt(light) * 65535).astype(np.uint16)]
        light = np.maximum(cv2.transform(light, _BT2020_TO_BT709), 0)
        image[top : top + _ROWS] = cv2.convertScaleAbs(cv2.pow(light, 1 / _DISPLAY_GAMMA), alpha=255)
    return image


@cache
def _linear(transfer: str, most: int) -> NDArray[np.float32]:
    """Return the light of each code up to ``most``: PQ tone-mapped, white is 1; HLG of the scene, the peak is 1."""
    code = np.linspace(0, 1, most + 1)
    if transfer == "pq":
        return _tone_map(_from_pq(code))
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    return np.where(code <= 0.5, code**2 / 3, (np.exp((code - c) / a) + b) / 12).astype(np.float32)


@cache
def _tone_mapped() -> NDArray[np.float32]:
    """Return (65536,): the tone-mapped light, 1 is white, by the square root of light, 1 is the peak."""
    return _tone_map(np.linspace(0, 1, 65536) ** 2 * _PEAK)


def _tone_map(light: Floats) -> NDArray[np.float32]:
    """Map light in cd/m² to light relative to white, from `_PEAK` to `_WHITE` (BT.2390, section 5.4.1)."""
    code = np.minimum(_to_pq(light) / _to_pq(_PEAK), 1)
    most = _to_pq(_WHITE) / _to_pq(_PEAK)
    knee = 1.5 * most - 0.5
    t = np.maximum(code - knee, 0) / (1 - knee)
    spline = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (3 * t**2 - 2 * t**3) * most
    mapped = np.where(code < knee, code, spline)
    return (_from_pq(mapped * _to_pq(_PEAK)) / _WHITE).astype(np.float32)


# SMPTE ST 2084.
_M1, _M2, _C1, _C2, _C3 = 2610 / 16384, 2523 / 32, 3424 / 4096, 2413 / 128, 2392 / 128


def _to_pq(light: Floats | float) -> Floats:
    power = (np.asarray(light) / 10_000) ** _M1
    return np.asarray(((_C1 + _C2 * power) / (1 + _C3 * power)) ** _M2)


def _from_pq(code: Floats) -> Floats:
    power = code ** (1 / _M2)
    return np.asarray(10_000 * (np.maximum(power - _C1, 0) / (_C2 - _C3 * power)) ** (1 / _M1))
