"""The relational CRN: a contextual relation network that reads relations between shots instead of their features.

What a scene is shows in how alike the shots around a cut are, not in what they show. The network therefore never sees
a feature: it reads the evidence that `pipelines.models.cut_evidence` finds at each cut of a film, in similarities of
shots and their lengths, at many scales up to the whole film. A linear form weighs the evidence, and that is all there
is to the model in the box: on the labels at hand nothing larger was better. Who has more labels may set a small network
beside it, which begins as nothing and corrects the sum by what is found at the cut and at the K cuts on either side.
Because nothing depends on the encoder's dimension or axes, one trained model serves any shot encoder.

The cut of a shot is the one after it; the film's last shot has none.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pipelines.errors import StoreError
from pipelines.models.checkpoints import load_model, save_model
from pipelines.models.cut_evidence import cut_evidence

KIND = "relational"
DEFAULT_MODEL = Path(__file__).parent / "data" / "relational.safetensors"
BATCH = 512
"""Windows that are scored at a time: bounds memory, changes nothing else."""

RIVAL_REACH = 2
"""Cuts on either side of a cut that it competes with."""
RIVAL_WEIGHT = 1.0
"""What a cut loses at most to a rival. With it a third as many scenes of one shot are found in the sets that the model
in the box was made with (of the labelled scenes, one in sixteen is one), and mIoU gains up to five points."""


@dataclass(frozen=True)
class RelationalSettings:
    """Shape of the network."""

    width: int = 0
    """Width of the network beside the linear form; 0: none."""
    layers: int = 2
    """Its layers over a whole window, after one that reads each cut alone."""
    neighbors: int = 4
    """K: cuts on either side of the one in question that it reads; a window has S = 2K+1."""
    dropout: float = 0.5
    """Dropout in fine-tuning, on the evidence and between the layers: many kinds of evidence say the same."""

    def __post_init__(self) -> None:
        sizes = (self.width + 1, self.layers, self.neighbors)
        if not all(isinstance(size, int) and size >= 1 for size in sizes) or not 0 <= self.dropout < 1:
            raise ValueError(f"not the shape of a network: {self}")

    @property
    def window(self) -> int:
        """S, the cuts in a window."""
        return 2 * self.neighbors + 1


@dataclass(frozen=True)
class Calibration:
    """How a logit becomes a score: `sigmoid(slope * (logit - offset))`.

    Attributes:
        slope: the slope of Platt scaling, fitted on cross-validation logits; above 0.
        offset: the logit at which a shot is called a scene end, so that a score of 0.5 is the operating point.
    """

    slope: float = 1.0
    offset: float = 0.0


def calibrated(logits: NDArray[np.float64], calibration: Calibration) -> NDArray[np.float64]:
    """Scores of logits, (N,) to (N,)."""
    # tanh is the logistic function that no logit can overflow.
    scores: NDArray[np.float64] = (1 + np.tanh(calibration.slope * (logits - calibration.offset) / 2)) / 2
    return scores


@cache
def token_width() -> int:
    """F, the numbers at a cut: kinds of evidence, and one that says that there is a cut."""
    kinds, _ = cut_evidence(np.eye(2, dtype=np.float32), np.ones(2))
    return len(kinds) + 1


def shot_tokens(features: NDArray[np.floating[Any]], durations: NDArray[np.floating[Any] | np.integer[Any]]) -> Tensor:
    """What the network may know about a film: the evidence at the cut of each shot, and 1; all 0 for the last shot.

    Args:
        features: (N, D), any D.
        durations: (N,) in seconds or in frames; only their ratios count. A zero (a last frame without a length) is
            taken for the shortest length in the film.

    Returns:
        (N, F) float32.

    Raises:
        ValueError: shapes do not fit, there is no shot, or a value is not finite or a duration is negative.
    """
    _check(features, durations)
    _, evidence = cut_evidence(features, durations)
    tokens = torch.zeros(len(features), token_width())
    tokens[:-1, :-1] = torch.from_numpy(evidence)
    tokens[:-1, -1] = 1
    return tokens


def padded(film: Tensor, neighbors: int) -> Tensor:
    """A film's tokens with K rows of 0 on either side, (N + 2K, F): what `windows` reads."""
    return functional.pad(film, (0, 0, neighbors, neighbors))


def windows(table: Tensor, first: Tensor, neighbors: int) -> Tensor:
    """Tokens of windows.

    Args:
        table: (T, F), the padded tokens of a film, or of several one after the other.
        first: (B,) int64, row of the first place of each window: in a table of one film, the number of the shot.
        neighbors: K.

    Returns:
        (B, S, F), all 0 where there is no cut.
    """
    return table[first[:, None] + torch.arange(2 * neighbors + 1, device=first.device)]


class Correction(nn.Module):
    """A small network over a window, which reads it the same from either end and begins as nothing."""

    def __init__(self, settings: RelationalSettings) -> None:
        super().__init__()
        width = settings.width
        self.reading = nn.Linear(token_width(), width)
        self.joining = nn.Linear(settings.window * width, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(settings.layers - 1))
        self.head = nn.Linear(width, 1, bias=False)
        nn.init.zeros_(self.head.weight)
        self.activation, self.dropout = nn.GELU(), nn.Dropout(settings.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, S, F) to (B, 1)."""
        places = self.dropout(self.activation(self.reading(tokens)))
        x = sum(self.activation(self.joining(order.flatten(1))) for order in (places, places.flip(1)))
        for layer in self.layers:
            x = x + self.activation(layer(self.dropout(x)))
        result: Tensor = self.head(self.dropout(x))
        return result


class RelationalNetwork(nn.Module):
    """Tokens of a window to the logit that a scene ends at its centre."""

    def __init__(self, settings: RelationalSettings) -> None:
        super().__init__()
        self.settings = settings
        self.weighing = nn.Linear(token_width(), 1)
        self.correction = Correction(settings) if settings.width else None
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, S, F) tokens to (B,) logits."""
        x = self.dropout(tokens)
        logits: Tensor = self.weighing(x[:, self.settings.neighbors])
        if self.correction is not None:
            logits = logits + self.correction(x)
        return logits[:, 0]


class RelationalScorer:
    """Networks that vote by the mean of their logits, and the calibration of their vote."""

    def __init__(self, members: Sequence[RelationalNetwork], calibration: Calibration | None = None) -> None:
        """
        Raises:
            ValueError: no member, or members of different shape.
        """
        if not members or any(member.settings != members[0].settings for member in members):
            raise ValueError("a scorer needs at least one network, and all of one shape")
        self.members = [member.eval() for member in members]
        self.settings = members[0].settings
        self.calibration = calibration or Calibration()

    def logits(
        self, features: NDArray[np.floating[Any]], durations: NDArray[np.floating[Any] | np.integer[Any]]
    ) -> NDArray[np.float64]:
        """What `score` rests on, before calibration: (N, D) and (N,) to (N,)."""
        return self.token_logits(shot_tokens(features, durations))

    @torch.inference_mode()
    def token_logits(self, film: Tensor) -> NDArray[np.float64]:
        """Logits of a film by its tokens (`shot_tokens`), (N, F) to (N,)."""
        K = self.settings.neighbors
        table = padded(film, K)
        batches = []
        for shots in torch.split(torch.arange(len(film)), BATCH):
            tokens = windows(table, shots, K)
            batches.append(torch.stack([member(tokens) for member in self.members]).double().mean(dim=0))
        logits: NDArray[np.float64] = torch.cat(batches).numpy()
        if len(logits) > 1:
            logits[:-1] = less_rivals(logits[:-1])
            # Nothing is known of a cut that is not there. It is the last to be taken for a scene end.
            logits[-1] = logits[:-1].min()
        return logits

    def score(
        self, features: NDArray[np.floating[Any]], durations: NDArray[np.floating[Any] | np.integer[Any]]
    ) -> NDArray[np.float64]:
        """How likely it is that a scene ends with each shot.

        Args:
            features: (N, D) encodings of the shots of one whole film, in order, N >= 1, any D.
            durations: (N,) lengths of the shots, in seconds or in frames.

        Returns:
            (N,) scores between 0 and 1; 0.5 is the operating point. The film ends with its last shot whatever the
            score of that shot says, which is the lowest of the film.

        Raises:
            ValueError: shapes do not fit, there is no shot, or a value is not finite or a duration is negative.
        """
        return calibrated(self.logits(features, durations), self.calibration)


def less_rivals(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logits that are lowered where a neighbouring cut has a greater one, (N,) to (N,).

    Two neighbouring cuts are hardly both scene ends, but what speaks for one of them speaks for the other too: around
    a long shot that is like no other, both look like one. A cut loses `RIVAL_WEIGHT` times the logistic function of
    the greatest logit up to `RIVAL_REACH` cuts away, if that is greater than its own.
    """
    greatest = np.full(len(logits), -np.inf)
    for k in range(1, min(RIVAL_REACH, len(logits) - 1) + 1):
        greatest[k:] = np.maximum(greatest[k:], logits[:-k])
        greatest[:-k] = np.maximum(greatest[:-k], logits[k:])
    lost: NDArray[np.float64] = RIVAL_WEIGHT * calibrated(greatest, Calibration()) * (greatest > logits)
    return logits - lost


def save_scorer(path: Path, scorer: RelationalScorer) -> None:
    """Write a scorer as one safetensors file.

    Raises:
        StoreError: the file cannot be written.
    """
    tensors = {
        f"members.{i}.{name}": tensor
        for i, member in enumerate(scorer.members)
        for name, tensor in member.state_dict().items()
    }
    settings = {
        "network": asdict(scorer.settings),
        "members": len(scorer.members),
        "calibration": asdict(scorer.calibration),
    }
    save_model(path, tensors, KIND, settings)


def load_scorer(path: Path | None = None) -> RelationalScorer:
    """Read a scorer; without a path, the model in the package.

    Raises:
        StoreError: the file is missing, damaged, of another version or kind, weighs evidence that is no longer found,
            or its weights and settings do not fit.
    """
    path = DEFAULT_MODEL if path is None else path
    tensors, stored = load_model(path, KIND)
    weighed = tensors.get("members.0.weighing.weight", torch.zeros(1, token_width())).shape[-1]
    if weighed != token_width():
        raise StoreError(
            f"{path}: weighs {weighed - 1} kinds of evidence, and this bassl finds {token_width() - 1}; "
            "use the bassl that made it, or train it again"
        )
    try:
        settings = RelationalSettings(**_numbers(stored["network"], RelationalSettings))
        calibration = Calibration(**_numbers(stored["calibration"], Calibration))
        count = stored["members"]
        members = []
        for i in range(count):
            prefix = f"members.{i}."
            member = RelationalNetwork(settings)
            member.load_state_dict(
                {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
            )
            members.append(member)
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            raise ValueError("weights that are not finite")
        return RelationalScorer(members, calibration)
    except (KeyError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise StoreError(
            f"{path}: its weights and settings do not fit each other; get or make the model again"
        ) from error


def _numbers(stored: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The fields of a settings class out of a header: all there, no other, each a finite number."""
    if set(stored) != {field.name for field in fields(kind)}:
        raise ValueError(f"fields {sorted(stored)}")
    for name, value in stored.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name} is {value}")
    return dict(stored)


def _check(features: NDArray[np.floating[Any]], durations: NDArray[np.floating[Any] | np.integer[Any]]) -> None:
    if features.ndim != 2 or not features.size or durations.shape != (len(features),):
        raise ValueError(
            f"features must be (N, D) and durations (N,) with N, D >= 1, not {features.shape} and {durations.shape}"
        )
    if not np.isfinite(features).all():
        raise ValueError("features must be finite")
    if not np.isfinite(durations).all() or (durations < 0).any():
        raise ValueError("durations must be finite and not negative")
