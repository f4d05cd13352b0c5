"""Figures for a paper from a user's own films, models and runs: those of the paper's appendix, and training curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BasslError, DatasetError, StoreError
from pipelines.models.opening import open_model
from pipelines.pretext.settings import PseudoBoundary
from pipelines.stages.score import ScoreSettings, score

if TYPE_CHECKING:  # settings import nothing heavy, so that --help is instant
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from pipelines.outputs.figures import Curve, DividedWindow, PredictedLane
    from pipelines.scenes import SceneList
    from pipelines.stores.index import Index

METHODS: tuple[PseudoBoundary, ...] = ("dtw", "mean", "dtw-tslearn")
"""Ways to find a pseudo-boundary that look at the window; the others of table 4a draw lots or know the answer."""
_PICTURE_WIDTH = 200  # pixels; more than a print shows of one shot of sixteen
_MOST_PICTURES = 48  # above a matrix; of more, none could be made out


@dataclass(frozen=True)
class FigureResult:
    """What was written.

    Attributes:
        path: the file.
        warnings: lines on what is missing from the figure or strange about it.
    """

    path: Path
    warnings: tuple[str, ...] = ()


# --- similarity of consecutive shots ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SimilaritySettings:
    """Which shots, and how they are drawn."""

    index: Path = Path("data/index.h5")
    """Index of the film: its shots, labels and key-frames."""
    video: str | None = None
    """Id of the film; None: the only one of the index."""
    first: int = 0
    """Number of the first shot, counted from 0."""
    shots: int = 16
    """How many shots (appendix: 16)."""
    features: Path = Path("data/features")
    """For runs: folder of feature stores where those of their encoder are looked for, or the store to use."""
    labels: tuple[str, ...] = ()
    """Names of the models, in their order; none: names of their files."""
    own_scale: bool = False
    """Each matrix has a scale of colours of its own; else all share one, and colours can be compared."""


def draw_similarity(
    models: Sequence[Path], output: Path, settings: SimilaritySettings = SimilaritySettings()
) -> FigureResult:
    """Draw the cosine similarity of consecutive shots under several models (appendix, "Visualization of similarities
    between consecutive shots"), with the scenes outlined where the index knows them, below the key-frames of up to 48
    shots where it has those.

    Args:
        models: feature stores (.h5), whose features are compared as they are; or runs or model files with the paper's
            CRN, of which each shot is compared as it is contextualised, at the centre of its own window.
        output: .png, .svg or .pdf.
        settings: the rest.

    Raises:
        BasslError: one line, for a film or shots that are not in the index, a model or store that cannot be read or
            has nothing of this film, or an output that cannot be written.

    Example::

        from pipelines.stages.figure import SimilaritySettings, draw_similarity

        stores = [Path("data/features/resnet50-0123456789ab.h5"), Path("runs/pretrain")]
        draw_similarity(stores, Path("similarity.svg"), SimilaritySettings(video="tt0120338", first=40))
    """
    _check_output(output)
    if not models:
        raise BasslError("nothing to draw: name a feature store or a run")
    names = _names(models, settings.labels)
    index = _index_of_video(settings.index, settings.video)
    (name,) = index.video_ids
    if settings.shots < 2:
        raise BasslError(f"a figure of similarities needs at least 2 shots, not {settings.shots}")
    rows = _rows(index, settings.first, settings.shots)

    from pipelines.outputs import figures

    matrices = {
        label: _cosines(_representation(index, model, settings.features)[rows])
        for label, model in zip(names, models, strict=True)
    }
    ends = _scene_ends(index, rows)
    title = f"{name}, shots {rows[0]} to {rows[-1]}" + (", without labels" if ends is None else "")
    pictures = _pictures(index, rows) if len(rows) <= _MOST_PICTURES else []
    return _saved(output, figures.similarity_figure(matrices, int(rows[0]), ends, pictures, title, settings.own_scale))


def _representation(index: Index, model: Path, features: Path) -> NDArray[np.floating]:
    """The shots of a film (N, D) as a model sees them."""
    from pipelines.stores.features import features_of

    if model.suffix.lower() == ".h5":
        return features_of(index, [model])[1]

    import numpy as np
    import torch

    from pipelines.stores.index import window_rows

    if not model.exists():
        raise BasslError(f"{model}: no such feature store, run or model")
    crn, encoder = open_model(model).context()
    store = _store_of(index, features, encoder)
    encodings = features_of(index, [store])[1]
    shape = crn.settings
    if encodings.shape[1] != shape.input_width:
        raise BasslError(
            f"{store}: its features are {encodings.shape[1]} wide, and {model} reads {shape.input_width}; name the "
            "store of its encoder with --features"
        )
    film = torch.from_numpy(encodings)
    windows = window_rows(index.first_row, np.arange(len(film)), shape.neighbors, "clip")
    with torch.inference_mode():
        parts = [crn(film[part])[0][:, shape.center] for part in torch.split(torch.from_numpy(windows), 256)]
        context: NDArray[np.floating] = torch.cat(parts).numpy()
    return context


def _cosines(features: NDArray[np.floating]) -> NDArray[np.float64]:
    """Cosine similarity (M, M) of all pairs; 0 for features of length 0."""
    import numpy as np

    values = features.astype(np.float64)
    units = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    similarity: NDArray[np.float64] = units @ units.T
    return similarity


# --- pseudo-boundaries ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PseudoBoundarySettings:
    """Which windows, and how they are divided."""

    index: Path = Path("data/index.h5")
    """Index of the films: their shots, labels and key-frames."""
    features: Path = Path("data/features")
    """Feature store, or a folder with one that has the films; those that the index names come first."""
    windows: int = 4
    """How many windows are drawn by lot, of those with a true scene end in them, where none are named."""
    seed: int = 0
    """Of the lots."""
    neighbours: int = 8
    """K, shots on each side of the centre (section 4.1)."""
    method: PseudoBoundary = "dtw"
    """dtw (release; section 3.3), mean (the equation of section 3.3) or dtw-tslearn (the paper's listing)."""


def draw_pseudo_boundaries(
    windows: Sequence[str], output: Path, settings: PseudoBoundarySettings = PseudoBoundarySettings()
) -> FigureResult:
    """Draw where windows of shots fall into two parts, and where their true scenes end (appendix,
    "Pseudo-boundaries"), with the middle key-frame of each shot; or, of films without key-frames, with the similarity
    that the division rests on. Shots are compared by their features (section 3.3).

    Args:
        windows: centre shots, as ``VIDEO:SHOT``; none: drawn by lot. As in pre-training, a window that reaches over a
            film's edge is moved inside.
        output: .png, .svg or .pdf.
        settings: the rest.

    Raises:
        BasslError: one line, for a window that is not in the index, a film that is shorter than a window, an index
            without labels to draw by, features or key-frames that cannot be read, or an output that cannot be written.
    """
    _check_output(output)
    if settings.method not in METHODS:
        raise BasslError(f"pseudo-boundaries are found by {', '.join(METHODS)}, not {settings.method!r}")
    if settings.neighbours < 1:
        raise BasslError(f"a window needs at least 1 neighbour on each side, not {settings.neighbours}")
    index = _read_index(settings.index)
    centres = [_centre(index, window) for window in windows] or _drawn_by_lot(index, settings)

    from pipelines.outputs import figures

    return _saved(output, figures.pseudo_boundary_figure([_divided(index, *one, settings) for one in centres]))


def _centre(index: Index, text: str) -> tuple[int, int]:
    """The video and the shot that ``VIDEO:SHOT`` names."""
    name, _, number = text.rpartition(":")
    if not name or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise BasslError(f"{text!r} names no window; it is VIDEO:SHOT, such as {index.video_ids[0]}:8")
    video = _video(index, name)
    shots = len(index.rows([video]))
    if int(number) >= shots:
        raise BasslError(f"{index.path}: {name} has {shots} shots, 0 to {shots - 1}, and no shot {int(number)}")
    return video, int(number)


def _drawn_by_lot(index: Index, settings: PseudoBoundarySettings) -> list[tuple[int, int]]:
    """Centres of different windows with a true scene end before their last shot, in order."""
    import numpy as np

    from pipelines.stores.index import window_rows

    if settings.windows < 1:
        raise BasslError(f"a figure needs at least 1 window, not {settings.windows}")
    if settings.seed < 0:
        raise BasslError(f"a seed is 0 or more, not {settings.seed}")
    lengths = np.diff(index.first_row)
    rows = index.rows_of()
    rows = rows[lengths[index.video_of(rows)] > 2 * settings.neighbours]
    is_end = np.zeros(len(index.label), np.bool_)
    labelled = index.rows_of(labelled=True)
    is_end[labelled] = index.targets(labelled) == 1
    members = window_rows(index.first_row, rows, settings.neighbours, "shift")
    # Windows at a film's edge are moved inside and are then the same.
    members, firsts = np.unique(members, axis=0, return_index=True)
    centres = rows[firsts][is_end[members[:, :-1]].any(axis=1)]
    if not len(centres):
        raise BasslError(
            f"{index.path}: has no window of {2 * settings.neighbours + 1} shots with a labelled scene end; name "
            "windows as VIDEO:SHOT"
        )
    lots = np.random.default_rng(settings.seed).choice(centres, min(settings.windows, len(centres)), replace=False)
    chosen = np.sort(lots)
    videos = index.video_of(chosen)
    return list(zip(videos.tolist(), (chosen - index.first_row[videos]).tolist(), strict=True))


def _divided(index: Index, video: int, shot: int, settings: PseudoBoundarySettings) -> DividedWindow:
    import numpy as np
    import torch

    from pipelines.outputs.figures import DividedWindow
    from pipelines.pretext.pseudo_boundary import discover, end_similarity
    from pipelines.stores.features import features_of
    from pipelines.stores.index import window_rows

    index = _only(index, video)
    (name,) = index.video_ids
    S, N = 2 * settings.neighbours + 1, len(index.label)
    if N < S:
        raise BasslError(f"{index.path}: {name} has {N} shots, fewer than a window of {S}; lower --neighbours")
    (rows,) = window_rows(index.first_row, np.array([shot]), settings.neighbours, "shift")
    store = _store_of(index, settings.features)
    dense = torch.from_numpy(features_of(index, [store])[1][rows])[None]
    slow = dense[:, [0, -1]]
    found = int(discover(settings.method, slow, dense)[0])
    ends = _scene_ends(index, rows)
    title = f"{name}, shots {rows[0]} to {rows[-1]}: pseudo-boundary after shot {rows[found]}"
    inner = [end for end in ends or () if end < S - 1]
    if ends is not None:
        title += (
            f", scene ends after {', '.join(str(rows[end]) for end in inner)}" if inner else ", no scene end inside"
        )
    return DividedWindow(title, found, ends, end_similarity(slow, dense)[0].numpy(), _pictures(index, rows))


# --- predicted boundaries ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoundarySettings:
    """What predictions are compared with."""

    truth: Path | None = None
    """True scenes, in any format that `bassl score` reads; or a folder with those of this film among others."""
    within: float = ScoreSettings.within
    """How far apart, in seconds, a true and a predicted boundary may be to count as one."""
    frame_rate: float | None = None
    """Frames a second of a truth that does not say."""
    annotator: int = ScoreSettings.annotator
    """Whose labels of BBC are read."""
    labels: tuple[str, ...] = ()
    """Names of the models, in their order; none: names of their files."""


def draw_boundaries(
    files: Sequence[Path], output: Path, settings: BoundarySettings = BoundarySettings()
) -> FigureResult:
    """Draw what several models predict for one film (appendix, "Predicted scene boundaries"): scores, threshold and
    scene ends, one lane each, by time, so that their shots may differ.

    Args:
        files: ``scenes.json`` of `bassl predict`, all of the same film.
        output: .png, .svg or .pdf.
        settings: the truth, and the rest.

    Raises:
        BasslError: one line, for a file or a truth that cannot be read, or an output that cannot be written.
    """
    from pipelines.datasets.scene_list import read_scene_list

    _check_output(output)
    if not files:
        raise BasslError("nothing to draw: name a scenes.json")
    names = _names(files, settings.labels)
    listed = [read_scene_list(file) for file in files]
    truth = None if settings.truth is None else _true_ends(files[0], settings.truth, settings)

    from pipelines.outputs import figures

    lanes = [_lane(name, one, truth, settings.within) for name, one in zip(names, listed, strict=True)]
    middles = None if truth is None else truth.mean(axis=1)
    title = Path(listed[0].video.path).name
    result = _saved(output, figures.boundary_figure(lanes, middles, title))
    lengths = [one.shots[-1].end for one in listed]
    strange = tuple(
        f"{file} lasts {length:.1f} s and {files[0]} {lengths[0]:.1f} s; are they of the same film?"
        for file, length in zip(files[1:], lengths[1:], strict=True)
        if abs(length - lengths[0]) > max(5.0, 0.02 * lengths[0])
    )
    return replace(result, warnings=(*result.warnings, *strange))


def _true_ends(file: Path, truth: Path, settings: BoundarySettings) -> NDArray[np.float64]:
    """(M, 2) the earliest and latest second of each true scene end, as `bassl score` reads them."""
    import numpy as np

    how = ScoreSettings(
        within=settings.within, frame_rate=settings.frame_rate, annotator=settings.annotator, resamples=0
    )
    (film,) = score(file, truth, how).films
    if film.true_ends is not None:
        return film.true_ends
    assert film.seconds is not None  # a scenes.json has them
    ends = film.seconds[:-1, 1][film.labels[:-1] == 1]
    return np.column_stack([ends, ends])


def _lane(name: str, listed: SceneList, truth: NDArray[np.float64] | None, within: float) -> PredictedLane:
    import numpy as np

    from pipelines.datasets.matching import assign_scene_ends
    from pipelines.evaluation.boundary_metrics import boundary_match
    from pipelines.outputs.figures import PredictedLane

    ends = np.array([scene.end for scene in listed.scenes[:-1]])
    threshold = listed.settings.get("threshold")
    # With --scenes N the N best are taken, whatever the threshold.
    if not isinstance(threshold, int | float) or listed.settings.get("scenes") is not None:
        threshold = None
    hits, note = None, f"{len(listed.scenes)} scenes"
    if truth is not None:
        hits = np.zeros(len(ends), np.bool_)
        if len(ends) and len(truth):
            taken = assign_scene_ends(ends, truth, within)
            hits[taken[taken >= 0]] = True
        note += f", boundary F1 within {within:g} s: {100 * boundary_match(truth, ends, within).f1:.1f}"
    edges = np.array([*(shot.start for shot in listed.shots), listed.shots[-1].end])
    return PredictedLane(name, edges, np.array([shot.score for shot in listed.shots]), ends, threshold, hits, note)


# --- training curves --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurveSettings:
    """What is drawn of runs."""

    labels: tuple[str, ...] = ()
    """Names of the runs, in their order; none: names of their folders."""


LOGS = ("log.csv", "validation.csv")
_PLACES = ("step", "epoch", "seed")
_SPEEDS = ("windows_per_second", "shots_per_second", "waiting")


def draw_curves(runs: Sequence[Path], output: Path, settings: CurveSettings = CurveSettings()) -> FigureResult:
    """Draw losses, learning rate and validation measures of runs from their logs, a panel each.

    Args:
        runs: folders of `bassl pretrain` or `bassl finetune`, ended or not. The seeds of a fine-tuned run are one
            line, their mean, with a band from the least to the greatest.
        output: .png, .svg or .pdf.
        settings: the rest.

    Raises:
        BasslError: one line, for a folder without a log, an empty or damaged log, or an output that cannot be written.
    """
    _check_output(output)
    if not runs:
        raise BasslError("nothing to draw: name the folder of a run")
    names = _names(runs, settings.labels)
    panels: dict[str, dict[str, Curve]] = {}
    for name, run in zip(names, runs, strict=True):
        for quantity, curve in _curves(run).items():
            panels.setdefault(quantity, {})[name] = curve

    from pipelines.outputs import figures

    return _saved(output, figures.curve_figure(panels, names))


def _curves(run: Path) -> dict[str, Curve]:
    """The curves of a run by quantity: those of the log, then those of validation."""
    if not run.is_dir():
        raise BasslError(f"{run}: no such folder of a run")
    logs = {name: _log(run / name) for name in LOGS if (run / name).exists()}
    if "log.csv" not in logs:
        raise BasslError(f"{run}: holds no log.csv; name the folder of a run of pretrain or finetune")
    if not logs["log.csv"]:
        raise BasslError(f"{run / 'log.csv'}: has no rows yet")
    # Steps count on from seed to seed; here each seed begins at 0.
    last: dict[float, float] = {}
    for row in logs["log.csv"]:
        last[row.get("seed", 0.0)] = row["step"]
    begun = dict(zip(last, [0.0, *list(last.values())[:-1]], strict=True))
    curves: dict[str, Curve] = {}
    for rows in logs.values():
        for quantity in rows[0] if rows else ():
            if quantity not in (*_PLACES, *_SPEEDS):
                curves[quantity] = _curve(rows, quantity, begun)
    return curves


def _curve(rows: Sequence[Mapping[str, float]], quantity: str, begun: Mapping[float, float]) -> Curve:
    import numpy as np

    from pipelines.outputs.figures import Curve

    values: dict[float, list[float]] = {}
    for row in rows:
        values.setdefault(row["step"] - begun.get(row.get("seed", 0.0), 0.0), []).append(row[quantity])
    steps = sorted(values)
    mean, low, high = (np.array([how(values[step]) for step in steps]) for how in (np.mean, np.min, np.max))
    return Curve(np.array(steps), mean, low, high)


def _log(path: Path) -> list[dict[str, float]]:
    """The rows of a log, without a last one that is being written or was cut short."""
    import csv
    import math

    try:
        with path.open(newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{path}: cannot be read ({error})") from error
    if rows and len(rows[-1]) < len(header):
        del rows[-1]
    if rows and ("step" not in header or len(set(header)) < len(header)):
        raise DatasetError(f"{path}: is not the log of a run: its columns are {', '.join(header)}")
    found = []
    for line, row in enumerate(rows, start=2):
        try:
            found.append({name: float(cell) for name, cell in zip(header, row, strict=True)})
            if not math.isfinite(found[-1]["step"]):
                raise ValueError("a step that is no number")
        except ValueError as error:
            raise DatasetError(f"{path}, line {line}: is not a row of {len(header)} numbers") from error
    return found


# --- what figures share -----------------------------------------------------------------------------------------------


def _check_output(path: Path) -> None:
    from pipelines.files import check_writable
    from pipelines.outputs.plots import check_plot

    check_plot(path)
    check_writable(path)


def _saved(path: Path, figure: Figure) -> FigureResult:
    from pipelines.outputs.plots import save_plot

    return FigureResult(path, save_plot(path, figure))


def _names(paths: Sequence[Path], labels: Sequence[str]) -> list[str]:
    """What files or folders are called in a figure: as the user says, or by as much of their paths as tells them
    apart."""
    if labels and len(labels) != len(paths):
        raise BasslError(f"{len(labels)} labels were given for {len(paths)} things to draw; give each one, in order")
    short = [path.parent.name if path.name == "model.safetensors" else _stem(path) for path in paths]
    names = list(labels) or (short if len(set(short)) == len(short) else [str(path) for path in paths])
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BasslError(f"{twice}: is named twice; tell them apart with --label")
    return names


def _stem(path: Path) -> str:
    known = (".h5", ".json", ".safetensors")
    return path.stem if path.suffix.lower() in known else path.name or str(path)


def _read_index(path: Path) -> Index:
    from pipelines.stores.index import read_index

    if not path.exists():
        raise BasslError(f"{path}: no such index; run `bassl build-index`, or name one with --index")
    return read_index(path)


def _index_of_video(path: Path, name: str | None) -> Index:
    index = _read_index(path)
    if name is None and len(index.video_ids) > 1:
        some = ", ".join(index.video_ids[:5]) + (", ..." if len(index.video_ids) > 5 else "")
        raise BasslError(f"{path}: has {len(index.video_ids)} videos ({some}); name one with --video")
    return _only(index, 0 if name is None else _video(index, name))


def _video(index: Index, name: str) -> int:
    from difflib import get_close_matches

    if name not in index.video_ids:
        near = get_close_matches(name, index.video_ids, 3)
        advice = f"did you mean {' or '.join(near)}?" if near else f"its first is {index.video_ids[0]}"
        raise BasslError(f"{index.path}: has no video {name!r}; {advice}")
    return index.video_ids.index(name)


def _only(index: Index, video: int) -> Index:
    """An index of one of its videos, whose rows are then its shots."""
    import numpy as np

    one, rows = slice(video, video + 1), index.span(video)
    return replace(
        index,
        video_ids=index.video_ids[one],
        splits=index.splits[one],
        sources=index.sources[one],
        pictures=index.pictures[one],
        first_row=np.array([0, rows.stop - rows.start]),
        frame_rates=index.frame_rates[one],
        frames=index.frames[rows],
        seconds=index.seconds[rows],
        label=index.label[rows],
        jpeg=index.jpeg[rows],
        jpeg_crc32=index.jpeg_crc32[rows],
    )


def _rows(index: Index, first: int, shots: int) -> NDArray[np.int64]:
    import numpy as np

    N = len(index.label)
    if first < 0 or first + shots > N:
        raise BasslError(
            f"{index.path}: {index.video_ids[0]} has {N} shots, 0 to {N - 1}; shots {first} to {first + shots - 1} "
            "are not all among them"
        )
    return np.arange(first, first + shots)


def _scene_ends(index: Index, rows: NDArray[np.int64]) -> list[int] | None:
    """Which of some shots of an index, by their place, end a scene; None where none of them has a label."""
    import numpy as np

    known = np.isin(rows, index.rows_of(labelled=True))
    if not known.any():
        return None
    ends: list[int] = np.flatnonzero(known & (index.targets(rows) == 1)).tolist()
    return ends


def _store_of(index: Index, features: Path, encoder: str | None = None) -> Path:
    """The store with the features of the only video of an index: the one that is named, or, of those of the encoder
    (None: any), of those that the index names, or else in the folder.

    Raises:
        BasslError: one line, where there is none or more than one.
    """
    from pipelines.stores.features import read_shot_checksums
    from pipelines.stores.lookup import find_features

    if features.suffix.lower() == ".h5":
        return features
    (name,) = index.video_ids

    def stores() -> Iterator[Path]:
        if encoder is not None:
            # Where the features of films came from several stores, a model names all of them.
            for one in encoder.split(" + "):
                yield from find_features(index, one, features)
        elif index.features:
            yield from (path for path in index.features.values() if path.exists())
        else:
            yield from sorted(features.glob("*.h5"))

    having = [path for path in stores() if name in read_shot_checksums(path)]
    wanted = "features" if encoder is None else f"features of {encoder}"
    if not having:
        raise StoreError(f"{index.path}: has no {wanted} of {name}, nor has {features}; name a store with --features")
    if len(having) > 1:
        raise StoreError(
            f"{index.path}: has {wanted} of {name} in {', '.join(map(str, having))}; name one with --features"
        )
    return having[0]


def _pictures(index: Index, rows: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
    """The middle key-frame of shots of the only video of an index, small; [] where it has none."""
    import cv2
    import numpy as np

    from pipelines.datasets.keyframe_reader import KeyframeReader

    if index.pictures[0] is None or not index.keyframes:
        return []
    reader = KeyframeReader(index)
    pictures = []
    middle = np.full((len(rows), 1), index.keyframes // 2)
    for row, (jpeg,) in zip(rows.tolist(), reader.read(rows, middle), strict=True):
        picture = reader.decoded(row, jpeg)
        height = max(1, round(picture.shape[0] * _PICTURE_WIDTH / picture.shape[1]))
        small = cv2.resize(picture, (_PICTURE_WIDTH, min(height, 2 * _PICTURE_WIDTH)), interpolation=cv2.INTER_AREA)
        pictures.append(np.asarray(small, np.uint8))
    return pictures
