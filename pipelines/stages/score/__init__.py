"""How well scenes are found: a model on the films of an index, or lists of scenes against the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipelines.errors import BasslError
from pipelines.models.opening import open_model

if TYPE_CHECKING:  # the real imports stand where they are used: `bassl --help` must not wait for torch
    from pipelines.datasets.annotations import VideoAnnotation
    from pipelines.evaluation.alignment import Alignment
    from pipelines.evaluation.bootstrap import Measure
    from pipelines.evaluation.metrics import FilmScores
    from pipelines.evaluation.representation import KnnPrecision, SceneClustering
    from pipelines.models.boundary import BoundaryModel
    from pipelines.stores.index import Index

ALL_SPLITS = "all"
"""In the place of a split: every labelled film."""
SCHEMA, SCHEMA_VERSION = "bassl.score", 1

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is in all."""


@dataclass(frozen=True)
class ScoreSettings:
    """What is scored how."""

    index: Path = Path("data/index.h5")
    """Index of the films that a model is scored on."""
    split: str = "test"
    """Films of this split; ``all`` takes every labelled film."""
    features: Path = Path("data/features")
    """Folder of feature stores, where that of the model's encoder is looked for, or made; or the store to use."""
    threshold: float | None = None
    """A shot with at least this score ends a scene. None: 0.5 for a model (as in the paper's release), and for a list
    of scenes the scenes that it lists."""
    tolerance: float = 1.0
    """How far, in seconds, a scene end may lie from the end of the shot that takes it, where prediction and truth have
    shots of their own."""
    within: float = 3.0
    """How far apart, in seconds, a true and a predicted boundary may be to count as one, for boundary F1."""
    frame_rate: float | None = None
    """Frames a second of films and label files that do not say."""
    annotator: int = 0
    """Whose labels of BBC are read."""
    doubtful: Literal["end", "ignore"] = "end"
    """MovieNet's label -1 in a truth file: a scene end, as in the paper's release, or left out. An index has settled
    that itself."""
    resamples: int = 1000
    """Draws of films for the confidence intervals; 0 for none."""
    seed: int = 0
    """Of the draws."""
    representation: bool = False
    """Also, or for a feature store only, how well features group by scene: kNN precision and NMI (appendix)."""
    device: str = "auto"
    """Where an encoder runs, where features have to be made: auto, cpu or cuda."""


@dataclass(frozen=True)
class Representation:
    """How well the features of the films group by scene, see `pipelines.evaluation.representation`."""

    encoder: str
    knn: KnnPrecision
    nmi: tuple[SceneClustering, ...]


@dataclass(frozen=True)
class SeedSpread:
    """A metric over the seeds of a run.

    Attributes:
        mean: of the seeds.
        deviation: standard deviation of the seeds, with n - 1 below; None for one seed.
        values: by seed.
    """

    mean: float
    deviation: float | None
    values: Mapping[int, float]

    @classmethod
    def of(cls, values: Mapping[int, float]) -> SeedSpread:
        """The spread of a metric, from its value for each seed, at least one."""
        import numpy as np

        numbers = list(values.values())
        return cls(float(np.mean(numbers)), float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None, values)


def seed_spreads(measures: Mapping[int, Mapping[str, Measure]]) -> dict[str, SeedSpread]:
    """The spread of each metric over the seeds for which it is defined, from the measures of each seed."""
    values: dict[str, dict[int, float]] = {}
    for seed, own in measures.items():
        for name, measure in own.items():
            if measure.value is not None:
                values.setdefault(name, {})[seed] = measure.value
    return {name: SeedSpread.of(by_seed) for name, by_seed in values.items()}


@dataclass(frozen=True)
class ScoreResult:
    """How well one prediction does.

    Attributes:
        name: what was scored.
        films: what is known and was said about each film.
        measures: by name, see `pipelines.evaluation.bootstrap.METRICS`; empty where only features were looked at.
        threshold: at which scores were cut; None where the prediction says itself where scenes end.
        seeds: by metric, for a run of several seeds; what `measures` shows is the seed that the run chose.
        representation: where it was asked for.
        alignments: by film, how prediction and truth came together, for lists of scenes.
        problems: a line for each file or film that could not be scored.
        notes: lines on what to know of the numbers.
        settings: with which they were made.
    """

    name: str
    films: tuple[FilmScores, ...]
    measures: Mapping[str, Measure]
    threshold: float | None
    settings: ScoreSettings
    seeds: Mapping[str, SeedSpread] = field(default_factory=dict)
    representation: Representation | None = None
    alignments: Mapping[str, Alignment] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values; metrics from 0 to 1 (Sum to 4), None where not defined."""
        from pipelines.evaluation.bootstrap import CONFIDENCE, JSON_KEYS, flat

        content: dict[str, Any] = {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "name": self.name,
            "films": [film.film for film in self.films],
            "shots": sum(int(film.counted().sum()) for film in self.films),
            "scene_ends": sum(int(film.labels[film.counted()].sum()) for film in self.films),
            "threshold": self.threshold,
            "within": self.settings.within,
            "resamples": self.settings.resamples,
            "confidence": CONFIDENCE,
            "metrics": flat(self.measures),
            "seeds": {
                JSON_KEYS.get(name, name): {
                    "mean": one.mean,
                    "std": one.deviation,
                    "values": {str(seed): value for seed, value in one.values.items()},
                }
                for name, one in self.seeds.items()
            },
            "problems": list(self.problems),
            "notes": list(self.notes),
        }
        if self.alignments:
            content["tolerance"] = self.settings.tolerance
            content["matching"] = {film: _matching(one) for film, one in self.alignments.items()}
        if self.representation is not None:
            content["representation"] = {
                "encoder": self.representation.encoder,
                "knn": {str(k): _number(value) for k, value in self.representation.knn.pooled.items()},
                "knn_films": {str(k): _number(value) for k, value in self.representation.knn.by_video.items()},
                "nmi": {
                    str(one.length): {"mean": _number(one.nmi), "scenes": one.scenes, "trials": list(one.trials)}
                    for one in self.representation.nmi
                },
            }
        return content


@dataclass(frozen=True)
class Comparison:
    """Two predictions for the same films.

    Attributes:
        first, second: each by itself, on the films that both have.
        difference: first less second, metric by metric, measured on the same draws of films.
    """

    first: ScoreResult
    second: ScoreResult
    difference: Mapping[str, Measure]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        from pipelines.evaluation.bootstrap import flat

        return {
            "schema": f"{SCHEMA}.comparison",
            "version": SCHEMA_VERSION,
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
            "difference": flat(self.difference),
        }


def score(
    subject: Path | str,
    truth: Path | str | None = None,
    settings: ScoreSettings = ScoreSettings(),
    progress: Progress | None = None,
) -> ScoreResult:
    """Score a model on the films of an index, or lists of scenes against the truth.

    Args:
        subject: without a truth the folder of a run, a model file, ``default`` for the model in the box, or, for its
            representation only, a feature store. With a truth a scenes.json or another list of scenes, or a folder.
        truth: labels in any format that `pipelines.datasets.sources` reads; or a folder, of which each film is matched
            with the one of the same name among the predictions.
        settings: the rest.
        progress: told of films scored and features made.

    Raises:
        BasslError: one line, for anything that cannot be read or does not fit. In folders a damaged prediction, or one
            without its truth, costs itself only and is among the result's problems.

    Example::

        from pipelines import ScoreSettings, score

        result = score("scenes.json", "truth.csv")
        print(result.measures["boundary_f1"].pooled)
    """
    _check(settings)
    tell = progress or (lambda stage, done, total: None)
    if truth is None:
        return _score_model(subject, settings, tell)
    if settings.representation:
        raise BasslError("a list of scenes has no representation to score; leave out --representation or the truth")
    return _score_lists(Path(subject), Path(truth), settings)


def compare(
    first: Path | str,
    second: Path | str,
    truth: Path | str | None = None,
    settings: ScoreSettings = ScoreSettings(),
    progress: Progress | None = None,
) -> Comparison:
    """Score two predictions, and their difference with its confidence interval, from the same draws of films.

    Films that only one of the two has are left out of all and named among the problems.

    Raises:
        BasslError: as `score`, or where the two have no film in common.
    """
    from pipelines.evaluation import bootstrap

    results = [score(one, truth, settings, progress) for one in (first, second)]
    names = [{film.film for film in result.films} for result in results]
    common = names[0] & names[1]
    if not common:
        raise BasslError(f"{first} and {second} have no film in common that can be scored")
    for i, result in enumerate(results):
        if left := sorted(names[i] - common):
            other = results[1 - i].name
            problems = tuple(f"{film}: is scored for {result.name} only, not for {other}; left out" for film in left)
            films = tuple(film for film in result.films if film.film in common)
            results[i] = replace(
                result,
                films=films,
                measures=_measured(films, result.threshold, settings),
                problems=(*result.problems, *problems),
            )
    difference = bootstrap.compare(
        results[0].films,
        results[1].films,
        _threshold(results[0].threshold),
        settings.within,
        settings.resamples,
        settings.seed,
        _threshold(results[1].threshold),
    )
    return Comparison(results[0], results[1], difference)


def _check(settings: ScoreSettings) -> None:
    for name, value in (("tolerance", settings.tolerance), ("boundary tolerance", settings.within)):
        if not value >= 0 or value == float("inf"):
            raise BasslError(f"the {name} must be 0 seconds or more, not {value:g}")
    if settings.threshold is not None and not 0 <= settings.threshold <= 1:
        raise BasslError(f"a threshold is a score from 0 to 1, not {settings.threshold:g}")
    if settings.frame_rate is not None and not 0 < settings.frame_rate <= 1000:
        raise BasslError(f"{settings.frame_rate:g} is not a number of frames a second")
    if settings.resamples < 0:
        raise BasslError(f"resamples must be 0 or more, not {settings.resamples}")
    if settings.doubtful not in ("end", "ignore"):
        raise BasslError(f"doubtful labels can be read as 'end' or 'ignore', not {settings.doubtful!r}")


def _threshold(given: float | None) -> float:
    return 0.5 if given is None else given


def _measured(films: Sequence[FilmScores], threshold: float | None, settings: ScoreSettings) -> dict[str, Measure]:
    from pipelines.evaluation.bootstrap import measure

    return measure(films, _threshold(threshold), settings.within, settings.resamples, settings.seed)


# --- a model on an index ----------------------------------------------------------------------------------------------


def _score_model(subject: Path | str, settings: ScoreSettings, tell: Progress) -> ScoreResult:
    from pipelines.stores.index import read_index

    path = Path(subject)
    if path.suffix.lower() in (".json", ".csv"):
        raise BasslError(f"{path}: is a list of scenes; name the truth behind it")
    if not settings.index.exists():
        raise BasslError(f"{settings.index}: no such index; run `bassl build-index`, or name one with --index")
    index = read_index(settings.index)
    videos, notes = _videos(index, settings)
    if path.suffix.lower() == ".h5":
        if not settings.representation:
            raise BasslError(f"{path}: is a feature store, not a model; --representation scores the features")
        encoder, features = _opened_features(index, path)
        return ScoreResult(
            str(subject), (), {}, None, settings, {}, _representation(index, videos, encoder, features), notes=notes
        )
    opened = open_model(subject)
    if opened.pretrained_only:
        model = opened.pseudo_boundary_model()
        note = (
            f"{path} is pre-trained only: scored by its head for pseudo-boundaries (BaSSL without fine-tuning), "
            "whose threshold nothing has chosen"
        )
        notes = (*notes, note)
    else:
        model = opened.boundary_model()
    encoder, features = _features(model, None if opened.built_in else path, index, settings, tell)
    model.check(encoder, features.shape[1])
    threshold = _threshold(settings.threshold)
    seeds = {} if opened.built_in else _seed_files(path)
    total = len(videos) * (1 + len(seeds))

    def scored(model: BoundaryModel, done: int) -> tuple[FilmScores, ...]:
        films = []
        for i, video in enumerate(videos):
            films.append(_film(model, index, video, features, settings.frame_rate))
            tell("scoring", done + i + 1, total)
        return tuple(films)

    films = scored(model, 0)
    timeless = [film.film for film in films if film.seconds is None]
    if timeless:
        notes = (
            *notes,
            f"{_of(len(timeless), len(films), 'film')} no times in seconds, so Recall@3s and boundaries leave them "
            "out; --frame-rate gives them",
        )
    of_seeds = {}
    for i, (seed, file) in enumerate(seeds.items()):
        one = open_model(file).boundary_model()
        one.check(encoder, features.shape[1])
        of_seeds[seed] = _measured(scored(one, (i + 1) * len(videos)), threshold, replace(settings, resamples=0))
    return ScoreResult(
        name=str(subject),
        films=films,
        measures=_measured(films, threshold, settings),
        threshold=threshold,
        settings=settings,
        seeds=seed_spreads(of_seeds),
        representation=_representation(index, videos, encoder, features) if settings.representation else None,
        notes=notes,
    )


def _videos(index: Index, settings: ScoreSettings) -> tuple[list[int], tuple[str, ...]]:
    """The labelled films of the split, and a note on those without labels."""
    import numpy as np

    from pipelines.stores.index import NO_LABEL

    wanted = [
        video for video, split in enumerate(index.splits) if settings.split == ALL_SPLITS or split == settings.split
    ]
    if not wanted:
        there = ", ".join(sorted({split for split in index.splits if split})) or "none"
        raise BasslError(
            f"{index.path}: has no split {settings.split!r} (it has: {there}); name one with --split, or all films "
            f"with --split {ALL_SPLITS}"
        )
    labelled = [video for video in wanted if np.any(index.label[index.span(video)] != NO_LABEL)]
    if not labelled:
        raise BasslError(f"{index.path}: no film of the split {settings.split!r} has labels to score against")
    if len(labelled) < len(wanted):
        return labelled, (f"{_of(len(wanted) - len(labelled), len(wanted), 'film')} no labels and are left out",)
    return labelled, ()


def _of(some: int, number: int, thing: str) -> str:
    return f"{some} of {number} {thing}s have"


def _film(model: BoundaryModel, index: Index, video: int, features: Any, frame_rate: float | None) -> FilmScores:
    from pipelines.evaluation.indexed_films import film_scores

    span, seconds = index.span(video), index.times(video, frame_rate)
    # As `bassl predict`, which has seconds. Only their ratios count, and those of frames differ where the rate varies.
    ranges = index.frames[span] if seconds is None else seconds
    return film_scores(index, video, model.score(features[span], ranges[:, 1] - ranges[:, 0]), frame_rate)


def _seed_files(path: Path) -> dict[int, Path]:
    """The model of each seed of a run; none where there is only one."""
    import re

    if not path.is_dir():
        return {}
    found = {
        int(match[1]): file
        for file in path.glob("seed-*.safetensors")
        if (match := re.fullmatch(r"seed-([0-9]{1,18})\.safetensors", file.name))
    }
    return {seed: found[seed] for seed in sorted(found)} if len(found) > 1 else {}


def _features(
    model: BoundaryModel, path: Path | None, index: Index, settings: ScoreSettings, tell: Progress
) -> tuple[str, Any]:
    """The encoder's id and the features (T, D_e) of the index that a model reads; made where there are none yet."""
    from pipelines.stages.encode import EncodeSettings, encode_shots
    from pipelines.stores.lookup import find_features

    if settings.features.suffix.lower() == ".h5":
        return _opened_features(index, settings.features)
    stores = find_features(index, model.encoder, settings.features)
    if not stores:
        if not index.keyframes:
            wanted = "any encoder" if model.encoder is None else model.encoder
            raise BasslError(
                f"{index.path}: has no features of {wanted}, and no key-frames to make them of; name a store with "
                "--features"
            )
        encoder: str | Path | None = path if model.encoder_weights else model.encoder_name
        if encoder is None and model.encoder is None:
            encoder = EncodeSettings().encoder
        if encoder is None:
            raise BasslError(f"{path}: reads features of {model.encoder}, which cannot be made here; name their store")
        making = EncodeSettings(settings.index, encoder, settings.features, device=settings.device)
        stores = (encode_shots(making, lambda state: tell("encoding", state.shots, state.total)),)
    return _opened_features(index, *stores)


def _opened_features(index: Index, *stores: Path) -> tuple[str, Any]:
    from pipelines.stores.features import features_of

    return features_of(index, stores)


def _representation(index: Index, videos: Sequence[int], encoder: str, features: Any) -> Representation:
    from pipelines.evaluation.representation import SCENE_LENGTHS, knn_precision, scene_ids, scene_nmi

    rows = index.rows(videos)
    of = index.video_of(rows)
    scenes = scene_ids(index.targets(rows), of)
    seen = features[rows]
    return Representation(
        encoder,
        knn_precision(seen, scenes, of),
        tuple(scene_nmi(seen, scenes, of, length) for length in SCENE_LENGTHS),
    )


# --- lists of scenes against the truth --------------------------------------------------------------------------------


def _score_lists(subject: Path, truth: Path, settings: ScoreSettings) -> ScoreResult:
    from pipelines.datasets.sources import read_scenes_of_folder, read_scenes_of_video

    for path in (subject, truth):
        if not path.exists():
            raise BasslError(f"{path}: no such file or folder")
    problems: list[str] = []
    pairs: list[tuple[VideoAnnotation, VideoAnnotation]]
    if subject.is_dir():
        guesses, unread = read_scenes_of_folder(subject, settings.annotator, settings.frame_rate)
        problems += unread
        if truth.is_dir():
            truths, unread = read_scenes_of_folder(truth, settings.annotator, settings.frame_rate)
            problems += unread
        else:
            record = read_scenes_of_video(truth, settings.frame_rate)
            truths = {record.video_id: record}
        pairs, unmatched = _matched_by_name(guesses, truths)
        problems += unmatched
        if not pairs:
            raise BasslError(f"{subject} and {truth}: no list of scenes in one has the name of one in the other")
    else:
        guess = read_scenes_of_video(subject, settings.frame_rate)
        if truth.is_dir():
            truths, unread = read_scenes_of_folder(truth, settings.annotator, settings.frame_rate)
            found, _ = _matched_by_name({guess.video_id: guess}, truths)
            if not found:
                raise BasslError(
                    f"{truth}: has no labels of {guess.video_id}"
                    + (f" ({unread[0]})" if unread else "; name the file with the labels of this film")
                )
            pairs = found
        else:
            pairs = [(guess, read_scenes_of_video(truth, settings.frame_rate))]
    alignments = _aligned(pairs, settings, problems, alone=not subject.is_dir())
    films = tuple(one.film for one in alignments.values())
    return ScoreResult(
        name=str(subject),
        films=films,
        measures=_measured(films, settings.threshold, settings),
        threshold=settings.threshold,
        settings=settings,
        alignments=alignments,
        problems=tuple(problems),
        notes=_list_notes(alignments),
    )


def _aligned(
    pairs: Sequence[tuple[VideoAnnotation, VideoAnnotation]],
    settings: ScoreSettings,
    problems: list[str],
    alone: bool,
) -> dict[str, Alignment]:
    from pipelines.evaluation.alignment import align

    alignments = {}
    for guess, true in pairs:
        try:
            alignments[true.video_id] = align(
                guess, true, settings.tolerance, settings.threshold, settings.frame_rate, settings.doubtful
            )
        except BasslError as error:
            if alone:
                raise
            problems.append(str(error))
    if not alignments:
        raise BasslError(problems[-1])
    return alignments


def _matched_by_name(
    guesses: Mapping[str, VideoAnnotation], truths: Mapping[str, VideoAnnotation]
) -> tuple[list[tuple[VideoAnnotation, VideoAnnotation]], list[str]]:
    """Pairs of predictions and truths of one name, by the video's name or else by that of the file, and a line for each
    of either that is left alone."""
    left = dict(truths)
    pairs = [(guess, left.pop(name)) for name, guess in guesses.items() if name in truths]
    alone = [guess for name, guess in guesses.items() if name not in truths]
    files = {_file_name(true): name for name, true in left.items()}
    for guess in tuple(alone):
        names = (_file_name(guess), files.get(guess.video_id), files.get(_file_name(guess)))
        name = next((name for name in names if name in left), None)
        if name is not None:
            pairs.append((guess, left.pop(name)))
            alone.remove(guess)
    lines = [f"{guess.source}: no truth is called {guess.video_id}; left out" for guess in alone]
    lines += [f"{true.source}: no prediction is called {true.video_id}; left out" for true in left.values()]
    return sorted(pairs, key=lambda pair: pair[1].video_id), lines


def _file_name(record: VideoAnnotation) -> str:
    """Of the file, without what `bassl predict` and PySceneDetect add to a film's name."""
    import re

    return re.sub(r"(?i)[-_.]scenes$", "", record.source.stem)


def _list_notes(alignments: Mapping[str, Alignment]) -> tuple[str, ...]:
    """How the boundaries of prediction and truth were matched, and what lasts longer in one than in the other."""
    notes = []
    kinds: dict[str, list[Alignment]] = {}
    for one in alignments.values():
        kinds.setdefault(one.how, []).append(one)
    for how, some in kinds.items():
        films = f"{len(some)} film{'' if len(some) == 1 else 's'}: "
        if how == "same shots":
            notes.append(f"{films}prediction and truth have the same shots; compared shot by shot")
            continue
        whose = "true" if some[0].truth is not None else "predicted"
        reports = [one.truth or one.prediction for one in some]
        ends = sum(report.scene_ends for report in reports if report)
        matched = sum(report.matched for report in reports if report)
        mean = sum(report.mean_distance * report.matched for report in reports if report) / max(1, matched)
        most = max(report.max_distance for report in reports if report)
        notes.append(
            f"{films}{matched} of {ends} {whose} scene ends matched to {_PLACES[how]}, {mean:.2f} s away on average, "
            f"{most:.2f} s at most"
            + (f"; {ends - matched} found none within the tolerance and cut the shot they lie in" * (matched < ends))
        )
    for name, one in alignments.items():
        if one.lengths is not None and abs(one.lengths[0] - one.lengths[1]) > max(5.0, 0.02 * max(one.lengths)):
            notes.append(
                f"{name}: the prediction lasts {one.lengths[0]:.1f} s and the truth {one.lengths[1]:.1f} s; are they "
                "of the same film?"
            )
    if any(film.predicted is not None and (film.scores != film.scores).all() for film in _films(alignments)):
        notes.append("a list of scenes without scores has no AP, no AUC-ROC and no Sum")
    return tuple(notes)


_PLACES = {
    "shots of the prediction": "ends of the prediction's shots",
    "shots of the truth": "ends of the truth's shots",
    "true scenes as shots": "ends of true scenes (neither has shots)",
}


def _films(alignments: Mapping[str, Alignment]) -> list[FilmScores]:
    return [one.film for one in alignments.values()]


def _matching(one: Alignment) -> dict[str, Any]:
    from dataclasses import asdict

    reports = {"truth": one.truth, "prediction": one.prediction}
    return {
        "shots": one.how,
        **{
            name: None if report is None else {**asdict(report), "unmatched": list(report.unmatched)}
            for name, report in reports.items()
        },
    }


def _number(value: float) -> float | None:
    return None if value != value else value
