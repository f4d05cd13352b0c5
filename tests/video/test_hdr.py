"""Videos with a high dynamic range: keyframes, shots and stills as of the same video with a standard range.

The videos are made from standard ones by the formulas of ITU-R BT.2100 and BT.2408: diffuse white has 203 cd/m².
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.video.decoding import VideoDecoder
from pipelines.video.images import RGBImage
from pipelines.video.reader import VideoReader, still_images
from pipelines.video.shots import ReaderSettings
from tests import videos

Floats = NDArray[np.float64]
TRANSFERS = {"pq": 16, "hlg": 18}
TRANSFER = pytest.mark.parametrize("transfer", TRANSFERS)
LUMINANCE = np.array([0.2627, 0.6780, 0.0593])


def primaries(*xy: tuple[float, float]) -> Floats:
    """Return the matrix from RGB to XYZ, by the chromaticities of red, green and blue, and D65 as white."""
    columns = np.array([[x / y, 1, (1 - x - y) / y] for x, y in xy]).T
    white = np.array([0.3127 / 0.3290, 1, (1 - 0.3127 - 0.3290) / 0.3290])
    return columns * np.linalg.solve(columns, white)


BT709 = primaries((0.64, 0.33), (0.30, 0.60), (0.15, 0.06))
BT2020 = primaries((0.708, 0.292), (0.170, 0.797), (0.131, 0.046))


def pq(light: Floats) -> Floats:
    """Return the code, 0 to 1, of light in cd/m²."""
    y = (light / 10_000) ** 0.1593017578125
    return ((0.8359375 + 18.8515625 * y) / (1 + 18.6875 * y)) ** 78.84375


def hlg(light: Floats) -> Floats:
    """Return the code, 0 to 1, of the light in cd/m² of a display whose peak is 1000."""
    luminance = np.maximum(light @ LUMINANCE / 1000, 1e-12)[..., None]
    scene = light / 1000 * luminance ** (1 / 1.2 - 1)
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    return np.where(scene <= 1 / 12, np.sqrt(3 * scene), a * np.log(np.maximum(12 * scene - b, 1e-9)) + c)


def hdr_codes(image: RGBImage, transfer: str) -> Floats:
    """Return nonlinear RGB of BT.2020, 0 to 1, of a standard image."""
    light = 203 * (image / 255.0) ** 2.4 @ (np.linalg.inv(BT2020) @ BT709).T
    return (pq if transfer == "pq" else hlg)(np.maximum(light, 0))


def write_hdr(path: Path, codes: Iterable[Floats], transfer: str, pixel_format: str = "yuv420p10le") -> Path:
    """Encode nonlinear RGB of BT.2020 without loss; ``path`` is a Matroska file."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=24)
        context = stream.codec_context
        context.color_trc, context.color_primaries, context.colorspace = TRANSFERS[transfer], 9, 9
        context.color_range, context.pix_fmt = 1, pixel_format
        for index, code in enumerate(codes):
            height, width = code.shape[:2]
            if not index:
                context.width, context.height = width, height
            y = code @ LUMINANCE
            chroma = [(code[..., 2] - y) / 1.8814, (code[..., 0] - y) / 1.4746]
            halved = [c.reshape(height // 2, 2, width // 2, 2).mean((1, 3)) for c in chroma]
            frame = av.VideoFrame(width, height, "yuv420p10le")
            for plane, values in zip(frame.planes, (64 + 876 * y, *(512 + 896 * c for c in halved)), strict=True):
                padded = np.zeros((plane.height, plane.line_size // 2), np.uint16)
                padded[:, : plane.width] = np.round(values)
                plane.update(padded.tobytes())
            frame = frame.reformat(format=pixel_format)
            frame.pts = index
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def tiles(colors: Iterable[tuple[int, int, int]]) -> RGBImage:
    """Return an image with a tile of 32 x 32 pixels for each color."""
    return np.concatenate([np.full((32, 32, 3), color, np.uint8) for color in colors], axis=1)


def centers(image: RGBImage) -> Floats:
    return image[8:24].reshape(16, -1, 32, 3)[:, :, 8:24].mean((0, 2))


def still(path: Path) -> RGBImage:
    with VideoDecoder(path) as reader:
        return next(image for _, image in still_images(reader, [0.0]))


def mapped_gray(light: float) -> float:
    """Map gray light in cd/m² to a standard value of 0 to 255 (BT.2390, section 5.4.1)."""
    peak, white = float(pq(np.array(1000.0))), float(pq(np.array(203.0)))
    code, most = min(float(pq(np.array(light))) / peak, 1.0), white / peak
    knee = 1.5 * most - 0.5
    if code > knee:
        t = (code - knee) / (1 - knee)
        code = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (3 * t**2 - 2 * t**3) * most
    inverse = np.linspace(0, 1200, 1_200_001)
    mapped = float(np.interp(code * peak, pq(inverse), inverse))
    return float(255 * (mapped / 203) ** (1 / 2.4))


GRAYS = (0, 8, 16, 64, 128, 180, 217, 255)
COLORS = ((180, 20, 20), (20, 160, 30), (40, 40, 170), (170, 120, 60), (90, 150, 160), (120, 60, 130))


@TRANSFER
def test_standard_brightness_and_colors_keep_their_value_up_to_half_of_white_and_217_stays_near_217(
    tmp_path: Path, transfer: str
) -> None:
    image = tiles([*((gray, gray, gray) for gray in GRAYS), *COLORS])
    colors = centers(still(write_hdr(tmp_path / "video.mkv", [hdr_codes(image, transfer)], transfer)))
    np.testing.assert_allclose(colors[:6], np.repeat(GRAYS[:6], 3).reshape(6, 3), atol=2)
    np.testing.assert_allclose(colors[6], 217, atol=8)
    expected = [mapped_gray(203 * (gray / 255) ** 2.4) for gray in GRAYS]
    np.testing.assert_allclose(colors[:8], np.repeat(expected, 3).reshape(-1, 3), atol=2)
    np.testing.assert_allclose(colors[8:], COLORS, atol=4)


def test_highlights_are_compressed_by_the_curve_of_bt_2390_and_all_beyond_1000_is_white(tmp_path: Path) -> None:
    lights = np.array([1.0, 50.0, 92.0, 150.0, 300.0, 600.0, 1000.0, 4000.0, 10_000.0])
    codes = np.repeat(np.repeat(pq(lights), 32)[None, :, None], 32, axis=0).repeat(3, axis=2)
    colors = centers(still(write_hdr(tmp_path / "video.mkv", [codes], "pq")))
    np.testing.assert_allclose(colors[:, 0], [mapped_gray(light) for light in lights], atol=2)
    assert colors[-3:].tolist() == [[255.0] * 3] * 3


@TRANSFER
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p10le", "yuv444p12le", "yuv420p16le"])
def test_every_pixel_format_is_converted(tmp_path: Path, transfer: str, pixel_format: str) -> None:
    image = tiles((gray, gray, gray) for gray in GRAYS[2:])
    video = write_hdr(tmp_path / "video.mkv", [hdr_codes(image, transfer)], transfer, pixel_format)
    expected = [mapped_gray(203 * (gray / 255) ** 2.4) for gray in GRAYS[2:]]
    np.testing.assert_allclose(centers(still(video)).mean(1), expected, atol=3)


@TRANSFER
def test_shots_and_keyframes_are_those_of_the_video_with_a_standard_range(tmp_path: Path, transfer: str) -> None:
    images = videos.images(videos.FRAMES, videos.CUTS, numbered=False)
    standard = list(VideoReader(videos.write_video(tmp_path / "sdr.mkv", images), ReaderSettings()))
    codes = (hdr_codes(image, transfer) for image in videos.images(videos.FRAMES, videos.CUTS, numbered=False))
    shots = list(VideoReader(write_hdr(tmp_path / "hdr.mkv", codes, transfer), ReaderSettings()))
    assert [(s.start_frame, s.end_frame) for s in shots] == [(s.start_frame, s.end_frame) for s in standard]
    for one, two in zip(shots, standard, strict=True):
        difference = np.abs(one.keyframes[1].astype(int) - two.keyframes[1])
        assert np.median(difference) < 4, "bright colors are compressed"
        assert difference.mean() < 8
