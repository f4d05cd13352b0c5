"""Settings that stages of training share; imports nothing heavy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from pipelines.options import NO_OPTION, Settings

LARGEST_RATE = 1e30  # float32 has no room for much larger steps


@dataclass(frozen=True)
class AugmentationSettings(Settings):
    """How windows of keyframes are augmented in pre-training (appendix A, "Implementation details"). The paper names
    torchvision's transforms; every distribution is torchvision's. What the paper leaves open is as in the paper's
    release; where a field departs from that, its docstring says so."""

    size: int = 224
    """Side of the result (appendix A)."""
    scale: tuple[float, float] = (0.14, 1.0)
    """Area of the crop as a share of the original frame's, drawn uniformly (appendix A)."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Width over height of the crop in the original frame, drawn log-uniformly (appendix A)."""
    flip: float = 0.5
    """Probability of a horizontal flip of a window (appendix A)."""
    jitter: float = 0.8
    """Probability of colour jitter (appendix A), for each window or shot as jitter-gate says."""
    jitter_gate: Literal["window", "shot"] = "window"
    """Whether colour jitter is applied is drawn once per window (the release) or for each shot."""
    jitter_per: Literal["window", "shot"] = "window"
    """Whether the strengths and the order of the jitter are drawn once a window (the release) or for each shot
    (appendix A)."""
    brightness: float = 0.2
    """The factor is drawn from 1 - x to 1 + x (appendix A)."""
    contrast: float = 0.2
    """The factor is drawn from 1 - x to 1 + x (appendix A)."""
    saturation: float = 0.2
    """The factor is drawn from 1 - x to 1 + x (appendix A)."""
    hue: float = 0.05
    """The shift is drawn from -x to x, in turns of the colour circle (appendix A)."""
    greyscale: float = 0.0
    """Probability that a shot loses its colour: 0.2 in appendix A, 0 in the release's default configuration."""
    blur: float = 0.5
    """Probability of Gaussian blur of a window (appendix A)."""
    sigma: tuple[float, float] = (0.1, 2.0)
    """Standard deviation of the blur in pixels of the result, drawn uniformly (appendix A)."""
    sigma_per: Literal["shot", "window"] = "shot"
    """Whether sigma is drawn for each shot of a blurred window (the release) or once per window (appendix A)."""
    kernel_size: int = 23
    """Taps of the blur. The paper names none: a tenth of the side as in SimCLR, odd; beyond five sigma all is zero."""
    mean: tuple[float, float, float] = field(default=(0.485, 0.456, 0.406), metadata=NO_OPTION)
    """Subtracted from red, green and blue between 0 and 1; ImageNet's."""
    std: tuple[float, float, float] = field(default=(0.229, 0.224, 0.225), metadata=NO_OPTION)
    """Divided by afterwards; ImageNet's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("flip", "jitter", "greyscale", "blur", "brightness", "contrast", "saturation"):
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
