"""RGB images without FFmpeg: as JPEG, at the input size of a network, and from a high dynamic range to the standard.

`predict` and stores encode keyframes as JPEG in the same way, so that both see equal pixels.

High dynamic range (PQ and HLG, ITU-R BT.2100): light up to a half of diffuse white, 203 cd/m² (BT.2408), is shown as
standard video shows it; what is brighter is compressed by the curve of BT.2390. The curve is the same for all frames,
so that it makes no shot changes.
"""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image


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
    """Return the center square of an image (H, W, 3), its shorter side resized to 8/7 of ``size``: (size, size, 3), as
    the paper's release does at test time (shorter side to 256, bicubic, center 224), and torchvision by Pillow."""
    height, width = image.shape[:2]
    shorter = round(size * 256 / 224)
    scaled = (shorter, shorter * height // width) if width <= height else (shorter * width // height, shorter)
    left, top = (round((side - size) / 2) for side in scaled)
    resized = Image.fromarray(image).resize(scaled, Image.Resampling.BICUBIC)
    return np.asarray(resized.crop((left, top, left + size, top + size)), np.uint8)


# --- high dynamic range -----------------------------------------------------------------------------------------------

TRANSFERS = {16: "pq", 18: "hlg"}
"""Transfer functions with a high dynamic range, by FFmpeg's number (`AVColorTransferCharacteristic`)."""

# In cd/m²: diffuse white, and the brightest highlights, as masters and HLG displays have them. What is brighter in PQ
# becomes white.
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
    return np.concatenate([_rows_to_sdr(codes[top : top + _ROWS], transfer) for top in range(0, len(codes), _ROWS)])


def _rows_to_sdr(codes: NDArray[np.uint8] | NDArray[np.uint16], transfer: str) -> NDArray[np.uint8]:
    light = _linear(transfer, np.iinfo(codes.dtype).max)[codes]
    if transfer == "hlg":  # the opto-optical transfer function, from the light of the scene to a display's
        light *= cv2.pow(cv2.transform(light, _LUMINANCE), _OOTF_GAMMA - 1)[..., None]
        light = _tone_mapped()[(cv2.sqrt(light) * 65535).astype(np.uint16)]
    light = np.maximum(cv2.transform(light, _BT2020_TO_BT709), 0)
    return np.asarray(cv2.convertScaleAbs(cv2.pow(light, 1 / _DISPLAY_GAMMA), alpha=255), np.uint8)


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
