"""Settings of the pretext tasks, their weights and the pseudo-boundaries. Imports nothing heavy: options need them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from annotated_doc import Doc

from pipelines.options import Settings, advanced

Method = Literal["bassl", "simclr-instance", "simclr-temporal", "simclr-nn", "bassl+simclr-nn"]
Task = Literal["ssm", "cgm", "pp", "msm"]
PseudoBoundary = Literal["dtw", "mean", "random", "fixed", "synthesized", "dtw-tslearn"]
Alignment = Literal["head", "encodings"]
Variant = Literal["release", "paper"]


@dataclass(frozen=True)
class PretextSettings(Settings):
    """Settings that determine the pre-training loss. Raises ValueError: one line, for a value that is not allowed."""

    method: Annotated[
        Method, Doc("BaSSL, one of the shot-level methods it is compared with (table 2, M3 to M5), or both (M8).")
    ] = "bassl"
    tasks: Annotated[
        tuple[Task, ...],
        Doc("Any of the four tasks (section 3.4; table 3, P1 to P15). The shot-level methods have none."),
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
        Alignment,
        Doc("What is compared to divide it: outputs of the SSM head (release) or the shots' encodings (section 3.3)."),
    ] = advanced("head")
    variant: Annotated[Variant, Doc("Losses and SSM head as released, or as in the equations of section 3.4.")] = (
        advanced("release")
    )
    temperature: Annotated[float, Doc("tau of every contrastive loss (appendix A).")] = advanced(0.1)
    masking_rate: Annotated[
        float,
        Doc("""Share of shots that MSM masks, each on its own (section 3.4); at least one per window is masked
        (release)."""),
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
        """Whether the method has tasks of BaSSL."""
        return self.method in ("bassl", "bassl+simclr-nn")

    @property
    def needs_crn(self) -> bool:
        """Whether any loss uses contextualized shots."""
        return self.has_windows and any(task != "ssm" for task in self.tasks)

    @property
    def needs_boundary(self) -> bool:
        """Whether any loss uses pseudo-boundaries: all tasks but MSM do."""
        return self.has_windows and any(task != "msm" for task in self.tasks)

    @property
    def needs_alignment(self) -> bool:
        """Whether pseudo-boundaries are found by comparing shots."""
        return self.needs_boundary and self.pseudo_boundary in ("dtw", "mean", "dtw-tslearn")

    @property
    def needs_noise(self) -> bool:
        """Whether the loss of a batch depends on random draws."""
        return self.needs_crn or (self.needs_boundary and self.pseudo_boundary == "random")

    def slow_positions(self, shots: int) -> tuple[int, ...]:
        """The shots of a window of S that make the slow sequence, which gets the second augmentation.

        The two ends for BaSSL (section 3.3); first, last, center for BaSSL with ShotCoL (M8, release). ShotCoL alone
        needs only the center; the release also encodes the ends and drops them. For SimCLR (temporal) the loader puts
        another row there, see :func:`pipelines.pretext.sampling.neighbor_row`.
        """
        ends = (0, shots - 1) if self.has_windows else ()
        return ends if self.method == "bassl" else (*ends, shots // 2)
