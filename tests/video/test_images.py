"""JPEG in and out: RGB order, the decoder of OpenCV, and errors for what is not a JPEG."""

import io

import numpy as np
import pytest
from PIL import Image

from pipelines.video.images import from_jpeg, to_jpeg


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
