"""Self-supervision of BaSSL: pseudo-boundaries, pretext tasks and contrastive losses (paper, section 3). Here are the
settings of the pretext tasks and of the augmentation of keyframes; imports nothing heavy, because options need them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from annotated_doc import Doc

from pipelines.options import NO_OPTION, Settings, advanced

Method = Literal["bassl", "simclr-instance", "simclr-temporal", "simclr-nn", "bassl+simclr-nn"]
Task = Literal["ssm", "cgm", "pp", "msm"]
PseudoBoundary = Literal["dtw", "mean", "random", "fixed", "synthesized", "dtw-tslearn"]
Alignment = Literal["head", "encodings"]
Variant = Literal["release", "paper"]


@dataclass(frozen=True)
class PretextSettings(Settings):
    """Settings that determine the pre-training loss. Raises ValueError: one line, for a value that is not allowed."""

    heading = "Pretext tasks"
    method: Annotated[Method, Doc("BaSSL, a shot-level method (table 2, M3 to M5), or both (M8).")] = "bassl"
    tasks: Annotated[
        tuple[Task, ...], Doc("Any of the four tasks (section 3.4; table 3); shot-level methods have none.")
    ] = ("ssm", "cgm", "pp", "msm")
    alpha_ssm: Annotated[float, Doc("Weight of shot-scene matching, alpha 1 (section 3.4).")] = advanced(1.0)
    alpha_cgm: Annotated[float, Doc("Weight of contextual group matching, alpha 2 (section 3.4).")] = advanced(1.0)
    alpha_pp: Annotated[float, Doc("Weight of pseudo-boundary prediction, alpha 3 (section 3.4).")] = advanced(1.0)
    alpha_msm: Annotated[float, Doc("Weight of masked shot modeling, alpha 4 (section 3.4).")] = advanced(1.0)
    pseudo_boundary: Annotated[
        PseudoBoundary,
        Doc("""How a window is divided: dtw (release; section 3.3), mean (the equation of section 3.3), random,
        fixed or synthesized (table 4a); dtw-tslearn is dtw by tslearn, window by window, as in the paper's
        listing."""),
    ] = "dtw"
    alignment: Annotated[
        Alignment, Doc("What is compared: outputs of the SSM head (release) or encodings (section 3.3).")
    ] = advanced("head")
    variant: Annotated[Variant, Doc("Losses and SSM head as released, or as in the equations of section 3.4.")] = (
        advanced("release")
    )
    temperature: Annotated[float, Doc("tau of every contrastive loss (appendix A).")] = advanced(0.1)
    masking_rate: Annotated[
        float,
        Doc("Share of shots that MSM masks (section 3.4), at least one per window (release)."),
    ] = advanced(0.15)
    head_dim: Annotated[int, Doc("Dimension of the contrastive space (release).")] = advanced(128)

    def __post_init__(self) -> None:
        super().__post_init__()
        for i, task in enumerate(self.tasks):
            if task not in get_args(Task):
                raise ValueError(f"tasks[{i}] must be one of {', '.join(get_args(Task))}, not {task!r}")
        if len(set(self.tasks)) < len(self.tasks):
            raise ValueError(f"tasks must be different, not {', '.join(self.tasks)}")
        if self.has_windows and not self.tasks:
            raise ValueError(f"method {self.method} needs at least one of the tasks {', '.join(get_args(Task))}")
        if not all(0 <= alpha < math.inf for alpha in self.alphas.values()):
            raise ValueError("the weights of the tasks must be finite and not negative")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be finite and above 0, not {self.temperature}")
        if not 0 <= self.masking_rate <= 1:
            raise ValueError(f"masking_rate must lie in 0 to 1, not {self.masking_rate}")
        if self.head_dim < 1:
            raise ValueError(f"head_dim must be at least 1, not {self.head_dim}")

    @property
    def alphas(self) -> dict[str, float]:
        """alpha 1 to 4 by task."""
        return {"ssm": self.alpha_ssm, "cgm": self.alpha_cgm, "pp": self.alpha_pp, "msm": self.alpha_msm}

    @property
    def has_windows(self) -> bool:
        """Return whether the method has tasks of BaSSL."""
        return self.method in ("bassl", "bassl+simclr-nn")

    @property
    def needs_crn(self) -> bool:
        """Return whether any loss uses contextualized shots."""
        return self.has_windows and any(task != "ssm" for task in self.tasks)

    @property
    def needs_boundary(self) -> bool:
        """Return whether any loss uses pseudo-boundaries: all tasks but MSM do."""
        return self.has_windows and any(task != "msm" for task in self.tasks)

    @property
    def needs_alignment(self) -> bool:
        """Return whether pseudo-boundaries are found by comparing shots."""
        return self.needs_boundary and self.pseudo_boundary in ("dtw", "mean", "dtw-tslearn")

    def slow_positions(self, shots: int) -> tuple[int, ...]:
        """Return the shots of a window of S that make the slow sequence, which gets the second augmentation: the two
        ends for BaSSL (section 3.3); first, last, center for BaSSL with ShotCoL (M8, release); the center for others.
        For SimCLR (temporal) the loader puts another row there, see `neighbor_row`."""
        ends = (0, shots - 1) if self.has_windows else ()
        return ends if self.method == "bassl" else (*ends, shots // 2)


@dataclass(frozen=True)
class AugmentationSettings(Settings):
    """How windows of keyframes are augmented in pre-training (appendix A, "Implementation details"), by torchvision's
    distributions. What the paper leaves open is as in its release."""

    heading = "Augmentation of keyframes"
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
