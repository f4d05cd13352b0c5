"""The systems that the paper compares with (Table 1) on films of an index: settings chosen, scenes found, scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import BasslError

if TYPE_CHECKING:  # the real imports stand where they are used: `bassl --help` must not wait for SciPy
    import numpy as np
    from numpy.typing import NDArray

    from pipelines.baselines.segmentation import Segmentation
    from pipelines.baselines.systems import Baseline
    from pipelines.evaluation.metrics import FilmScores
    from pipelines.stages.score import ScoreResult
    from pipelines.stores.index import Index

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is in all."""


@dataclass(frozen=True)
class BaselineSettings:
    """Which system, on which films."""

    system: str = "graph-cut"
    """graph-cut, scsa, dp, story-graph, grouping, siamese, lgss or fixed-length."""
    index: Path = Path("data/index.h5")
    """Index of the films, with labels."""
    features: tuple[Path, ...] = ()
    """Feature store, or several of one encoder, with all videos of the index. Unless given, the index's own."""
    extra: tuple[Path, ...] = ()
    """Stores of further feature sets (sound, place, cast), for the systems that take several: grouping and lgss."""
    train_splits: tuple[str, ...] = ("train", "val")
    """Splits whose labels settings are chosen by, and networks learn from."""
    split: str = "test"
    """Split to score."""
    frame_rate: float | None = None
    """Frames a second of films whose index has no times."""
    seeds: int = 5
    """Networks to train, from another seed each, for siamese and lgss."""
    resamples: int = 0
    """Draws of films for confidence intervals; 0 for none."""

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.resamples < 0:
            raise ValueError(f"seeds must be at least 1 and resamples not negative: {self.seeds}, {self.resamples}")
        if self.frame_rate is not None and not 0 < self.frame_rate <= 1000:
            raise ValueError(f"{self.frame_rate:g} is not a number of frames a second")


@dataclass(frozen=True, eq=False)
class Film:
    """One film of N shots as systems see it.

    Attributes:
        name: id of the video.
        features: one or several sets, (N, D_m) each.
        shots: (N, 2) half-open frame ranges.
        times: (N, 2) in seconds.
        labels: (N,) 1 at the last shot of a scene; 0 at the film's last shot.
        known: (N,) False where a shot has no label.
    """

    name: str
    features: tuple[NDArray[np.floating[Any]], ...]
    shots: NDArray[np.int64]
    times: NDArray[np.float64]
    labels: NDArray[np.uint8]
    known: NDArray[np.bool_]


def baseline(settings: BaselineSettings = BaselineSettings(), progress: Progress | None = None) -> ScoreResult:
    """Find the scenes of the films of a split with one of the systems, and score them.

    Of the candidates for settings that a system's paper leaves open (`pipelines.baselines.systems`), those are taken
    that do best on the training splits: the greatest sum of AP, F1 and mIoU (`choose`). Without labelled films in these
    the defaults are taken, and a system with a network cannot be run.

    Returns:
        As `stages.score.score`: AP and AUC-ROC come from the soft scores, all else from the scenes. For a system
        with a network ``seeds`` has the spread, and what is shown is the first seed.

    Raises:
        BasslError: one line, for an unknown system, or films without labels, features or times.
    """
    from pipelines.baselines.systems import SYSTEMS
    from pipelines.evaluation.bootstrap import measure
    from pipelines.stages.score import ScoreResult, ScoreSettings, seed_spreads
    from pipelines.stores.index import read_index

    if settings.system not in SYSTEMS:
        raise BasslError(f"no system is called {settings.system!r}; there are {', '.join(SYSTEMS)}")
    system = SYSTEMS[settings.system]
    if settings.extra and not system.several:
        able = ", ".join(name for name, one in SYSTEMS.items() if one.several)
        raise BasslError(f"{settings.system} takes one feature set; leave --extra out, or use {able}")
    tell = progress or (lambda stage, done, total: None)
    index = read_index(settings.index)
    sets = _feature_sets(settings, index)
    films = _films(settings, index, sets, (settings.split,))
    if not films:
        there = ", ".join(sorted({split for split in index.splits if split})) or "none"
        raise BasslError(f"{settings.index}: no film of the split {settings.split!r} has labels (splits: {there})")
    taught = _films(settings, index, sets, settings.train_splits)
    if system.learns and len(taught) < 2:
        raise BasslError(f"{settings.index}: {settings.system} learns, and needs two labelled films to learn from")

    notes: tuple[str, ...] = ()
    chosen = system.settings()
    if not taught:
        notes = ("no labelled films to choose settings by: defaults",)
    elif system.candidates:
        chosen = choose(system, taught, lambda done, total: tell("choosing settings", done, total))
        named = ", ".join(f"{name} {getattr(chosen, name)}" for name in system.candidates)
        notes = (f"settings chosen on {len(taught)} films: {named}",)

    runs = settings.seeds if system.learns else 1
    scored: list[tuple[FilmScores, ...]] = []
    for seed in range(runs):
        fitted = chosen if system.learn is None else replace(chosen, network=_learnt(system, taught, seed))
        found = []
        for i, film in enumerate(films):
            found.append(_scores(film, segmented(system, film, fitted)))
            tell("finding scenes", seed * len(films) + i + 1, runs * len(films))
        scored.append(tuple(found))
    scoring = ScoreSettings(
        settings.index, settings.split, frame_rate=settings.frame_rate, resamples=settings.resamples
    )
    of_seeds = {seed: measure(one, resamples=0) for seed, one in enumerate(scored)} if runs > 1 else {}
    return ScoreResult(
        settings.system,
        scored[0],
        measure(scored[0], resamples=settings.resamples),
        None,
        scoring,
        seed_spreads(of_seeds),
        notes=notes,
    )


def choose(
    system: Baseline, films: Sequence[Film], progress: Callable[[int, int], None] = lambda done, total: None
) -> Any:
    """Those settings of a system that do best on labelled films; defaults where it has no candidates.

    Candidates with a network are judged on either half of the films with one that learnt from the other half.

    Args:
        system: one of `pipelines.baselines.systems`.
        films: at least one, two for a system with a network.
        progress: told of candidates tried.
    """
    parts = [(films[::2], films[1::2]), (films[1::2], films[::2])] if system.learns else [(films, films)]
    tried = list(_candidates(system))
    sums = [0.0] * len(tried)
    for part, (taught, judged) in enumerate(parts):
        network = _learnt(system, taught, 0)
        for i, settings in enumerate(tried):
            fitted = settings if network is None else replace(settings, network=network)
            sums[i] += _quality(judged, [segmented(system, film, fitted) for film in judged])
            progress(part * len(tried) + i + 1, len(parts) * len(tried))
    return tried[max(range(len(tried)), key=lambda i: sums[i])]


def segmented(system: Baseline, film: Film, settings: Any) -> Segmentation:
    """The scenes that a system finds in a film; of several feature sets all, where it takes several, else the first."""
    features = film.features if system.several and len(film.features) > 1 else film.features[0]
    return system.segment(features, film.times, settings)


def _candidates(system: Baseline) -> Iterator[Any]:
    for values in product(*system.candidates.values()):
        yield system.settings(**dict(zip(system.candidates, values, strict=True)))


def _learnt(system: Baseline, films: Sequence[Film], seed: int) -> Any:
    if system.learn is None:
        return None
    try:
        return system.learn([(film.features, film.labels) for film in films], seed)
    except ValueError as error:
        raise BasslError(f"nothing can be learnt from the labelled films: {error}") from error


def _quality(films: Sequence[Film], found: Sequence[Segmentation]) -> float:
    from pipelines.evaluation.bootstrap import measure

    measures = measure([_scores(film, one) for film, one in zip(films, found, strict=True)], resamples=0)
    return sum(measures[name].value or 0.0 for name in ("ap", "f1", "miou"))


def _scores(film: Film, found: Segmentation) -> FilmScores:
    from pipelines.evaluation.metrics import FilmScores

    return FilmScores(
        film.labels,
        found.score,
        film.shots,
        film.times,
        film.known,
        found.labels.astype(bool),
        film=film.name,
    )


def _feature_sets(settings: BaselineSettings, index: Index) -> list[NDArray[np.float32]]:
    """The feature sets in the rows of the index, (T, D_m) each."""
    from pipelines.stores.features import features_of
    from pipelines.stores.lookup import find_features

    stores = settings.features or find_features(index, None, settings.index.parent / "features")
    if not stores:
        raise BasslError(f"{settings.index}: has no features; name a store with --features")
    return [features_of(index, stores)[1], *(features_of(index, [store])[1] for store in settings.extra)]


def _films(
    settings: BaselineSettings, index: Index, sets: Sequence[NDArray[np.float32]], splits: Sequence[str]
) -> list[Film]:
    """The labelled films of some splits."""
    import numpy as np

    films = []
    for video, (name, split) in enumerate(zip(index.video_ids, index.splits, strict=True)):
        span = index.span(video)
        if split not in splits or not index.usable[span].any():
            continue
        times = index.times(video, settings.frame_rate)
        if times is None:
            raise BasslError(f"{settings.index}: {name} has no times in seconds; --frame-rate gives them")
        labels = index.targets(index.rows([video])).astype(np.uint8)
        labels[-1] = 0  # the film's end is no scene end that is to be found
        features = tuple(one[span] for one in sets)
        films.append(Film(name, features, index.frames[span].astype(np.int64), times, labels, index.usable[span]))
    return films
