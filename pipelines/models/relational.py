"""The relational CRN: a contextual relation network that reads relations between shots instead of their features.

What a scene is shows in how alike the shots around a cut are, not in what they show. The network therefore never sees
a feature: for a window of S = 2K+1 shots around a centre, the token of a shot holds its similarity to each of the S
shots, its log-duration, and whether it lies inside the film. A small Transformer reads the S tokens and a linear head
at the centre says whether a scene ends with the centre shot. Because nothing depends on the encoder's dimension or
axes, one trained model serves any shot encoder. Everything is relative to the film: similarities and durations are
z-scores over it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import StoreError
from pipelines.models.checkpoints import load_model, save_model

KIND = "relational"
DEFAULT_MODEL = Path(__file__).parent / "data" / "relational.safetensors"
Z_LIMIT = 6.0
"""z-scores are clipped here. Real films stay within five; a film of all but identical shots would go far beyond."""
BATCH = 512
"""Windows that are scored at a time: bounds memory, changes nothing else."""


@dataclass(frozen=True)
class RelationalSettings:
    """Shape of the network."""

    neighbors: int = 8
    """K: shots on either side of the centre; a window has S = 2K+1. The paper's CRN has K = 8 too (section 4.1)."""
    width: int = 64
    """Width of the Transformer. 128 was no better from set to set and takes twice as long."""
    layers: int = 2
    """Transformer layers, as many as in the paper's CRN."""
    heads: int = 8
    """Attention heads, as many as in the paper's CRN; must divide the width."""
    hidden: int = 128
    """Width between the two linear layers of a Transformer block."""
    dropout: float = 0.2
    """Dropout in training, on the embedded tokens and on each residual branch."""

    def __post_init__(self) -> None:
        sizes = (self.neighbors, self.width, self.layers, self.heads, self.hidden)
        if not all(isinstance(size, int) and size >= 1 for size in sizes) or self.width % self.heads:
            raise ValueError(f"not the shape of a network: {self}")

    @property
    def window(self) -> int:
        """S, the shots in a window."""
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


@dataclass(frozen=True)
class FilmRelations:
    """What the network may know about a film of N shots.

    Attributes:
        similarity: (N, S) float32; `similarity[i, d]` is the z-score of the similarity of shots i and i+d, for d from
            0 to S-1 = 2K, the farthest two shots of a window can lie apart; 0 where shot i+d is outside the film.
        log_duration: (N,) float32, z-scores.
    """

    similarity: Tensor
    log_duration: Tensor


def film_relations(
    features: NDArray[np.floating[Any]], durations: NDArray[np.floating[Any] | np.integer[Any]], neighbors: int
) -> FilmRelations:
    """Relations between the shots of one film, in O(N S) memory beside the features.

    The similarity of two shots is the cosine of their features after the film's mean is taken off, z-scored over all
    pairs of different shots that share a window. Scaling, shifting or turning the feature space therefore changes
    nothing. (Dividing each dimension by its deviation over the film would lose that, and blow up the dimensions of
    features whose axes are already principal components; a square root of non-negative features would lose it too.
    From set to set neither was better on the whole.)

    Args:
        features: (N, D), any D.
        durations: (N,) in seconds or in frames; only their ratios count. A zero (a last frame without a length) is
            taken for the shortest length in the film.
        neighbors: K.

    Raises:
        ValueError: shapes do not fit, there is no shot, or a value is not finite or a duration is negative.
    """
    x, lengths = _checked(features, durations)
    N, reach = len(x), 2 * neighbors

    unit = F.normalize(_centered(x), dim=1, eps=1e-12)
    similarity = torch.zeros(N, reach + 1)
    exists = torch.arange(N)[:, None] + torch.arange(reach + 1) < N
    for d in range(min(reach, N - 1) + 1):
        similarity[: N - d, d] = (unit[: N - d] * unit[d:]).sum(dim=1)
    pairs = similarity[:, 1:][exists[:, 1:]].double()  # a shot and itself are no pair
    mean, deviation = _moments(pairs)
    if deviation < 1e-6:  # fewer than three shots, or all alike: no pair is more alike than another
        similarity = torch.zeros_like(similarity)
    else:
        similarity = (((similarity - mean) / deviation).clamp(-Z_LIMIT, Z_LIMIT)) * exists

    log_duration = lengths.clamp_min(lengths[lengths > 0].min() if (lengths > 0).any() else 1.0).log()
    mean, deviation = _moments(log_duration)
    log_duration = ((log_duration - mean) / max(deviation, 1e-6)).clamp(-Z_LIMIT, Z_LIMIT)
    return FilmRelations(similarity, log_duration.float())


def window_tokens(relations: FilmRelations, centers: Tensor, neighbors: int) -> Tensor:
    """Tokens of the windows around some shots.

    Args:
        relations: of the film.
        centers: (B,) int64, the centre shot of each window.
        neighbors: K, as it was given to `film_relations`.

    Returns:
        (B, S, S+2): the token of the shot at place i holds its similarity to the shots at places 0 to S-1, its
        log-duration, and 1. Where a shot lies outside the film its token is all 0, and so is every similarity to it.
    """
    last = len(relations.log_duration) - 1
    places = centers[:, None] + torch.arange(-neighbors, neighbors + 1)
    inside = (places >= 0) & (places <= last)
    shots = places.clamp(0, last)
    one, other = shots[:, :, None], shots[:, None, :]
    both = inside[:, :, None] & inside[:, None, :]
    similarity = relations.similarity[torch.minimum(one, other), (one - other).abs()] * both
    duration = relations.log_duration[shots] * inside
    return torch.cat([similarity, duration[..., None], inside[..., None].to(similarity.dtype)], dim=2)


class Block(nn.Module):
    """A Transformer block with normalisation first (Xiong et al. 2020), able to answer for some places only."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.attention_out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width), nn.Dropout(dropout)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, wanted: slice) -> Tensor:
        """(B, S, width) to (B, places in `wanted`, width); every place is attended to, only the wanted are computed."""
        B, S, width = tokens.shape
        normed = self.attention_norm(tokens)
        query = self.query(normed[:, wanted]).view(B, -1, self.heads, width // self.heads).transpose(1, 2)
        key, value = self.key_value(normed).view(B, S, 2, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(B, -1, width)
        x = tokens[:, wanted] + self.dropout(self.attention_out(attended))
        result: Tensor = x + self.mlp(x)
        return result


class RelationalNetwork(nn.Module):
    """Tokens of a window to the logit that a scene ends with its centre shot."""

    def __init__(self, settings: RelationalSettings) -> None:
        super().__init__()
        self.settings = settings
        S, width = settings.window, settings.width
        self.embedding = nn.Linear(S + 2, width)
        self.position = nn.Parameter(torch.randn(S, width) * 0.02)
        self.embedding_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(settings.dropout)
        self.blocks = nn.ModuleList(
            Block(width, settings.heads, settings.hidden, settings.dropout) for _ in range(settings.layers)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, S, S+2) tokens to (B,) logits."""
        x = self.dropout(self.embedding_norm(self.embedding(tokens) + self.position))
        center = slice(self.settings.neighbors, self.settings.neighbors + 1)
        for i, block in enumerate(self.blocks):
            # Only the centre is read, so the last block need not compute the other places.
            x = block(x, center if i == len(self.blocks) - 1 else slice(None))
        logits: Tensor = self.head(x)[:, 0, 0]
        return logits


class RelationalScorer:
    """Networks that vote, and the calibration of their vote.

    Every network reads each cut twice, forwards and with time reversed, and all logits are averaged.
    """

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
        forward = film_relations(features, durations, self.settings.neighbors)
        ahead, back = self._one_way(forward), self._one_way(reversed_in_time(forward))[::-1]
        # Read backwards, "a scene ends with shot i" is "a scene ends with shot i+1": the same cut from its other side.
        # The film's last shot has no other side.
        return np.concatenate([(ahead[:-1] + back[1:]) / 2, ahead[-1:]])

    def score(
        self, features: NDArray[np.floating[Any]], durations: NDArray[np.floating[Any] | np.integer[Any]]
    ) -> NDArray[np.float64]:
        """How likely it is that a scene ends with each shot.

        Args:
            features: (N, D) encodings of the shots of one whole film, in order, N >= 1, any D.
            durations: (N,) lengths of the shots, in seconds or in frames.

        Returns:
            (N,) scores between 0 and 1; 0.5 is the operating point. The film ends with its last shot whatever the
            score of that shot says: in training it was no scene end, as in the annotations.

        Raises:
            ValueError: shapes do not fit, there is no shot, or a value is not finite or a duration is negative.
        """
        return calibrated(self.logits(features, durations), self.calibration)

    @torch.inference_mode()
    def _one_way(self, relations: FilmRelations) -> NDArray[np.float64]:
        batches = []
        for centers in torch.split(torch.arange(len(relations.log_duration)), BATCH):
            tokens = window_tokens(relations, centers, self.settings.neighbors)
            batches.append(torch.stack([member(tokens) for member in self.members]).double().mean(dim=0))
        logits: NDArray[np.float64] = torch.cat(batches).numpy()
        return logits


def reversed_in_time(relations: FilmRelations) -> FilmRelations:
    """The relations of the same film run backwards."""
    N, S = relations.similarity.shape
    shots, apart = torch.arange(N)[:, None], torch.arange(S)
    # Shot i of the reversed film is shot N-1-i, and the shot that follows it by d is shot N-1-i-d.
    first = N - 1 - shots - apart
    similarity = relations.similarity[first.clamp_min(0), apart.expand(N, S)] * (first >= 0)
    return FilmRelations(similarity, relations.log_duration.flip(0))


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
        StoreError: the file is missing, damaged, of another version or kind, or its weights and settings do not fit.
    """
    path = DEFAULT_MODEL if path is None else path
    tensors, stored = load_model(path, KIND)
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


def _checked(
    features: NDArray[np.floating[Any]], durations: NDArray[np.floating[Any] | np.integer[Any]]
) -> tuple[Tensor, Tensor]:
    x, lengths = np.asarray(features), np.asarray(durations, dtype=np.float64)
    if x.ndim != 2 or not x.size or lengths.shape != (len(x),):
        raise ValueError(
            f"features must be (N, D) and durations (N,) with N, D >= 1, not {x.shape} and {lengths.shape}"
        )
    if not np.isfinite(x).all():
        raise ValueError("features must be finite")
    if not np.isfinite(lengths).all() or (lengths < 0).any():
        raise ValueError("durations must be finite and not negative")
    # Scaled before the turn to float32, so that no feature is too large or too small for it.
    scaled = x.astype(np.float64) / max(float(np.abs(x).max()), np.finfo(np.float64).tiny)
    # torch takes no views that run backwards, such as of a film turned round.
    return torch.from_numpy(np.ascontiguousarray(scaled, dtype=np.float32)), torch.from_numpy(lengths.copy())


def _centered(x: Tensor) -> Tensor:
    """Features less the film's mean, (N, D)."""
    centered = x - x.mean(dim=0)
    # What is left of a film of equal shots is rounding error, which must not be blown up to unit length.
    norm = torch.linalg.vector_norm(centered, dim=1, keepdim=True)
    kept: Tensor = centered * (norm > 1e-6 * math.sqrt(x.shape[1]) * x.abs().max())
    return kept


def _moments(values: Tensor) -> tuple[float, float]:
    """Mean and standard deviation; 0 and 0 of nothing."""
    if not len(values):
        return 0.0, 0.0
    return float(values.mean()), float(values.std(correction=0))
