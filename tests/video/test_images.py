"""Colors without a full conversion of every frame come close to FFmpeg's own, whatever the pixel format."""

import io
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from pipelines.video.images import FrameReader, YUVImage, from_jpeg, halve, rgb, small_rgb, to_jpeg
from tests import videos

RGBImage = NDArray[np.uint8]

# name -> codec, pixel format, suffix, encoder options
FORMATS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "8 bits": ("libx264", "yuv420p", ".mkv", {"crf": "4"}),
    "10 bits": ("libx264", "yuv420p10le", ".mkv", {"crf": "4"}),
    "4:2:2": ("libx264", "yuv422p", ".mkv", {"crf": "4"}),
    "4:4:4": ("libx264", "yuv444p", ".mkv", {"crf": "4"}),
    "RGB": ("ffv1", "bgr0", ".mkv", {}),
    "gray": ("ffv1", "gray", ".mkv", {}),
    "motion JPEG": ("mjpeg", "yuvj420p", ".avi", {"qmin": "1", "qmax": "1"}),
    "motion JPEG 4:2:2": ("mjpeg", "yuvj422p", ".avi", {"qmin": "1", "qmax": "1"}),
    "10 bits, 4:2:2": ("prores_ks", "yuv422p10le", ".mov", {}),
}


def first_frame(path: Path) -> av.VideoFrame:
    with av.open(str(path)) as container:
        return next(container.decode(video=0))


def blocks(image: RGBImage) -> NDArray[np.float64]:
    """Return the colors in the middle of the texture's blocks, where no interpolation between them reaches."""
    height, width = image.shape[:2]
    rows, columns = (np.arange(3) * 2 + 1) * height // 8, (np.arange(6) * 2 + 1) * width // 12
    return image[rows][:, columns].astype(float)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("lines", [1000, 48])
def test_colors_are_close_to_those_of_ffmpeg(tmp_path: Path, kind: str, lines: int) -> None:
    codec, pixel_format, suffix, options = FORMATS[kind]
    path = videos.write_video(
        tmp_path / f"video{suffix}",
        videos.images(1, width=240, height=192),
        codec=codec,
        pixel_format=pixel_format,
        options=options,
    )
    frame = first_frame(path)
    image = rgb(FrameReader(lines).read(frame))
    assert image.shape == ((192, 240, 3) if lines == 1000 else (48, 60, 3))
    difference = np.abs(blocks(image) - blocks(frame.to_ndarray(format="rgb24")))
    assert difference.mean() < 1.5
    assert difference.max() <= 4


@pytest.mark.parametrize("full_range", [True, False])
def test_video_of_full_and_of_limited_range_has_its_black_and_white(tmp_path: Path, full_range: bool) -> None:
    for color in (0, 255):
        images = videos.plain_images(1, (color,) * 3, 64, 48)
        path = videos.write_video(tmp_path / "video.mkv", images, full_range=full_range, options={"crf": "4"})
        assert rgb(FrameReader(1000).read(first_frame(path))).mean() == pytest.approx(color, abs=2)


def test_colors_of_high_definition_rgb_video_are_kept(tmp_path: Path) -> None:
    image = next(videos.images(1, width=1280, height=720))
    frame = first_frame(videos.write_video(tmp_path / "hd.mkv", [image], codec="ffv1", pixel_format="bgr0"))
    for lines in (720, 240):
        assert np.abs(blocks(rgb(FrameReader(lines).read(frame))) - blocks(image)).max() <= 4


def frame_of(
    matrix: int,
    codes: tuple[int, int, int],
    pixel_format: str = "yuv420p",
    primaries: int = 2,
    size: tuple[int, int] = (64, 48),
) -> av.VideoFrame:
    """Return a frame of one color, as codes of 8 bits in limited range, with a color matrix by FFmpeg's number."""
    frame = av.VideoFrame(*size, pixel_format)
    deep = "p10" in pixel_format
    for plane, code in zip(frame.planes, codes, strict=True):
        plane.update(np.full(plane.buffer_size // (1 + deep), code << 2 * deep, "<u2" if deep else np.uint8).tobytes())
    frame.colorspace, frame.color_primaries = matrix, primaries
    return frame


# name -> number and primaries, codes of a color, and the color
MATRICES = {
    "BT.601": (6, 2, (81, 90, 240), (255, 0, 0)),
    "BT.709": (1, 1, (63, 102, 240), (255, 0, 0)),
    "BT.2020": (9, 9, (74, 97, 240), (255, 0, 0)),
}
PIXEL_FORMATS = ("yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv444p10le")


@pytest.mark.parametrize("pixel_format", PIXEL_FORMATS)
@pytest.mark.parametrize("kind", MATRICES)
def test_every_supported_color_matrix_is_converted_in_every_pixel_format(kind: str, pixel_format: str) -> None:
    matrix, primaries, codes, color = MATRICES[kind]
    reader = FrameReader(24)
    image = rgb(reader.read(frame_of(matrix, codes, pixel_format, primaries)))
    assert np.abs(image.astype(int) - color).max() <= 6


@pytest.mark.parametrize(
    ("size", "kind"),
    [((720, 576), "BT.601"), ((1280, 720), "BT.709"), ((1280, 544), "BT.709"), ((608, 1080), "BT.709")],
)
def test_video_without_a_matrix_is_bt_601_or_in_high_definition_bt_709(size: tuple[int, int], kind: str) -> None:
    _, _, codes, color = MATRICES[kind]
    image = rgb(FrameReader(24).read(frame_of(2, codes, size=size)))
    assert np.abs(image.astype(int) - color).max() <= 6


@pytest.mark.parametrize("pixel_format", PIXEL_FORMATS)
def test_a_video_with_another_color_matrix_is_read_as_if_it_had_none(pixel_format: str) -> None:
    for matrix in (7, 8, 11, 12, 14, 16):
        reader = FrameReader(24)
        assert np.ptp(rgb(reader.read(frame_of(matrix, (128, 128, 128), pixel_format)))[0, 0]) <= 2  # gray stays gray


def yuv(rng: np.random.Generator, width: int, height: int) -> YUVImage:
    half = ((height + 1) // 2, (width + 1) // 2)
    planes = [rng.integers(0, 256, shape).astype(np.uint8) for shape in ((height, width), half, half)]
    return YUVImage(*planes, np.eye(3, 4, dtype=np.float32))


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (640, 1), (1, 480), (101, 51), (448, 252), (853, 480), (1919, 1079)])
def test_images_of_every_size_are_halved_the_same_in_a_batch_or_alone(
    rng: np.random.Generator, size: tuple[int, int]
) -> None:
    images = [yuv(rng, *size) for _ in range(3)]
    batch = small_rgb(images, 96)
    assert max(batch.shape[1:3]) == max(size) or 96 <= max(batch.shape[1:3]) < 192
    for image, small in zip(images, batch, strict=True):
        np.testing.assert_array_equal(small_rgb([image], 96)[0], small)
        alone = image
        while max(alone.y.shape) // 2 >= 96:  # colors are halved once less, and so once more than they need here
            alone = halve(alone)
        np.testing.assert_array_equal(small[..., 0], alone.y)


def test_an_image_with_a_high_dynamic_range_in_a_batch_is_tone_mapped(rng: np.random.Generator) -> None:
    image = yuv(rng, 448, 252)
    bright = image._replace(transfer="pq")
    batch = small_rgb([image, bright], 96)
    np.testing.assert_array_equal(batch[1], small_rgb([bright], 96)[0])
    assert not np.array_equal(batch[0], batch[1])


def test_jpeg_keeps_colors_and_channel_order() -> None:
    image = np.zeros((16, 24, 3), np.uint8)
    image[:, :12, 0], image[:, 12:, 2] = 250, 250
    jpeg = to_jpeg(image, 95)
    as_pil = np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB")).astype(int)
    assert np.abs(as_pil[:, [2, 20]] - image[:, [2, 20]]).max() < 12
    assert np.abs(from_jpeg(jpeg).astype(int) - as_pil).max() <= 8  # two decoders


@pytest.mark.parametrize("content", [b"", b"\xff\xd8", b"\xff\xd8\xff\xd9", b"GIF89a", bytes(range(100, 200))])
def test_invalid_jpegs_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a JPEG that can be decoded"):
        from_jpeg(content)
