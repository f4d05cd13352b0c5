"""Settings that stages of training share; imports nothing heavy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_doc import Doc

from pipelines.options import NO_OPTION, Settings

LARGEST_RATE = 1e30  # float32 has no room for much larger steps


@dataclass(frozen=True)
class AugmentationSettings(Settings):
    """How windows of keyframes are augmented in pre-training (appendix A, "Implementation details"). The paper names
    torchvision's transforms; every distribution is torchvision's. What the paper leaves open is as in the paper's
    release; where a field departs from that, its docstring says so."""

    size: Annotated[int, Doc("Side of the result (appendix A).")] = 224
    scale: Annotated[
        tuple[float, float], Doc("Area of the crop as a share of the original frame's, drawn uniformly (appendix A).")
    ] = (0.14, 1.0)
    ratio: Annotated[
        tuple[float, float],
        Doc("Width over height of the crop in the original frame, drawn log-uniformly (appendix A)."),
    ] = (3 / 4, 4 / 3)
    flip: Annotated[float, Doc("Probability of a horizontal flip of a window (appendix A).")] = 0.5
    jitter: Annotated[
        float, Doc("Probability of color jitter (appendix A), for each window or shot as jitter-gate says.")
    ] = 0.8
    jitter_gate: Annotated[
        Literal["window", "shot"],
        Doc("Whether color jitter is applied is drawn once per window (the release) or for each shot."),
    ] = "window"
    jitter_per: Annotated[
        Literal["window", "shot"],
        Doc("""Whether the strengths and the order of the jitter are drawn once a window (the release) or for each
        shot (appendix A)."""),
    ] = "window"
    brightness: Annotated[float, Doc("The factor is drawn from 1 - x to 1 + x (appendix A).")] = 0.2
    contrast: Annotated[float, Doc("The factor is drawn from 1 - x to 1 + x (appendix A).")] = 0.2
    saturation: Annotated[float, Doc("The factor is drawn from 1 - x to 1 + x (appendix A).")] = 0.2
    hue: Annotated[float, Doc("The shift is drawn from -x to x, in turns of the color circle (appendix A).")] = 0.05
    grayscale: Annotated[
        float,
        Doc("Probability that a shot loses its color: 0.2 in appendix A, 0 in the release's default configuration."),
    ] = 0.0
    blur: Annotated[float, Doc("Probability of Gaussian blur of a window (appendix A).")] = 0.5
    sigma: Annotated[
        tuple[float, float],
        Doc("Standard deviation of the blur in pixels of the result, drawn uniformly (appendix A)."),
    ] = (0.1, 2.0)
    sigma_per: Annotated[
        Literal["shot", "window"],
        Doc("Whether sigma is drawn for each shot of a blurred window (the release) or once per window (appendix A)."),
    ] = "shot"
    kernel_size: Annotated[
        int,
        Doc("""Taps of the blur. The paper names none: a tenth of the side as in SimCLR, odd; beyond five sigma all
        is zero."""),
    ] = 23
    mean: Annotated[
        tuple[float, float, float], Doc("Subtracted from red, green and blue between 0 and 1; ImageNet's.")
    ] = field(default=(0.485, 0.456, 0.406), metadata=NO_OPTION)
    std: Annotated[tuple[float, float, float], Doc("Divided by afterwards; ImageNet's.")] = field(
        default=(0.229, 0.224, 0.225), metadata=NO_OPTION
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("flip", "jitter", "grayscale", "blur", "brightness", "contrast", "saturation"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie between 0 and 1, not {getattr(self, name)}")
        if not 0 <= self.hue <= 0.5:
            raise ValueError(f"hue must lie between 0 and 0.5, not {self.hue}")
        for name in ("scale", "ratio", "sigma"):
            low, high = getattr(self, name)
            if not 0 < low <= high < math.inf:
                raise ValueError(f"{name} must be a positive, finite range, not {low} to {high}")
        if self.kernel_size % 2 == 0 or not 1 <= self.kernel_size < 2 * self.size:
            raise ValueError(f"kernel_size must be odd and smaller than {2 * self.size}, not {self.kernel_size}")
