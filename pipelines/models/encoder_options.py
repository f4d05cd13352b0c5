"""What an ONNX file of an image network does not say of its input; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.options import accept_text


@dataclass(frozen=True)
class EncoderOptions:
    """How images are given to the network of ``--encoder FILE.onnx``; each field overrides the file's metadata.

    The metadata have the same names without ``encoder_``, their values as JSON.
    """

    encoder_mean: tuple[float, ...] | None = None
    """Mean of red, green and blue that an ONNX encoder was trained with, on the scale of 0 to 1. Unless given: that in
    the file's metadata."""
    encoder_std: tuple[float, ...] | None = None
    """Standard deviation, likewise. Unless given: that in the file's metadata."""
    encoder_size: int | None = None
    """Side of its square input in pixels. Unless given: that of the file."""
    encoder_output: str | None = None
    """Which of its outputs to read. Unless given: that in the file's metadata, or the only one."""

    def __post_init__(self) -> None:
        accept_text(self)
