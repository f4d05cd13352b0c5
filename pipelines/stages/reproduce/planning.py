"""Command lines that measure the rows of a table, for each way to train and test on the data.

The name of an output contains a digest of the command that makes it, and so of everything that determines it: other
settings or data have another output, and an existing output was made by the same command, whoever ran it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipelines.baselines import SYSTEMS
from pipelines.datasets.movienet import is_movienet, read_movienet_splits, videos_with_keyframes
from pipelines.datasets.shot_features import read_shot_feature_folder, shot_feature_files
from pipelines.errors import BasslError, DatasetError, count
from pipelines.models.encoder_loading import load_encoder
from pipelines.models.encoders.options import DEFAULT_ENCODER
from pipelines.stages.reproduce import TABLES, ReproduceSettings, StageOptions
from pipelines.stages.reproduce.rows import ACROSS, PRETRAINING, ROWS, RowSpec, SystemSpec, trains_shots_only
from pipelines.training.jobs import Machines
from pipelines.video.inputs import find_videos, video_ids
from pipelines.video.sound import has_sound

MOVIENET = Path("data/movienet")
PLACES365 = Path("data/places365/model.safetensors")
OTHER_SETS: Mapping[str, Path] = {"BBC": Path("data/bbc/index.h5"), "OVSD": Path("data/ovsd/index.h5")}
"""Indices of the sets that a model from MovieNet is tested on (data/README.md)."""
PAPER_ENCODER = "resnet50"
"""The encoder with ImageNet weights in the paper (section 4.1)."""
FRAME_RATE = 25.0
"""Frames per second of feature files, which do not contain it."""
LONG = 20
"""Epochs beyond which pre-training takes `StageOptions.long_pretrain`."""
VIDEOS = 12
_SIZE = {"width": 160, "height": 90}
GENERATED: Mapping[str, Any] = {"scenes": 14, "shots_per_scene": [4, 9], "shot_seconds": [0.4, 0.8], **_SIZE}
"""Options of the generated videos: a minute each, long enough for scenes that differ, small enough for two cores."""

_NETWORKS = ("transformer", "mlp", "ms-lstm")  # the paper's; the defaults of the relational one suit small sets
_SMALL = {"width": 64, "heads": 4}
_FINETUNE = {crn: {"epochs": 10, "batch": 128, "rate": 5e-4} for crn in _NETWORKS}
_FROM_SCRATCH = {"transformer": _SMALL, "mlp": {"width": 128}, "ms-lstm": {"width": 32}}
_TINY = {"encoder": "timm:test_resnet", "size": 32, "kernel_size": 3, "workers": 1}
OPTIONS: Mapping[str, StageOptions] = {
    # All encoders see the center of a keyframe, as in the paper's release.
    "movienet": StageOptions(baselines={"lgss": "lgss-movienet"}, preparation="center"),
    # Two or three dozen videos: with the paper's batch sizes and rates the epochs end before the loss falls. These were
    # chosen by the losses of pre-training.
    "features": StageOptions(
        pretrain={"batch": 16, "base_rate": 24.0, **_SMALL},
        # Forty epochs spend thousands of steps near the peak rate, and at the rate of ten epochs the loss rises again.
        long_pretrain={"base_rate": 6.0},
        finetune=_FINETUNE,
        network={**_FROM_SCRATCH, "ms-lstm": {"width": 32, "rate": 1e-3}},
    ),
    "videos": StageOptions(
        pretrain={"encoder": "resnet18", "size": 112, "batch": 64, "base_rate": 3.0, **_SMALL},
        finetune=_FINETUNE,
        network=_FROM_SCRATCH,
    ),
    "generated": StageOptions(
        pretrain={**_TINY, "batch": 32, "base_rate": 6.0, "neighbors": 4, **_SMALL},
        finetune={crn: {"epochs": 20, "batch": 32, "rate": 3e-3} for crn in _NETWORKS},
        network={
            "transformer": {"neighbors": 4, **_SMALL},
            "mlp": {"neighbors": 4, "width": 128},
            # With fewer epochs some seeds stay at a loss of ln 2: the LSTM's input has unit length and varies little.
            "ms-lstm": {"width": 32, "epochs": 60},
        },
    ),
}
"""By the kind of data."""


# --- lines ------------------------------------------------------------------------------------------------------------

_AGAIN = {"build-index": ["--overwrite"], "pretrain": ["--resume"], "finetune": ["--resume"]}
"""Options with which a line can be run again and again."""


@dataclass(frozen=True)
class Line:
    """One command line."""

    words: tuple[str, ...]  # as on one machine; a word that ends in /* stands for what the folder contains
    output: Path | None = None  # file or folder that it writes
    result: Path | None = None  # file for what it prints

    def option(self, name: str) -> str:
        """Return the value of an option, or an empty text."""
        return next((value for word, value in pairwise(self.words) if word == f"--{name}"), "")

    @property
    def command(self) -> str:
        """Return its command of bassl, make-video or write-split."""
        return {"bassl": self.words[1], "python": "make-video"}.get(self.words[0], "write-split")

    def words_on(self, machines: Machines) -> list[str]:
        """Return the words, with the options of the machines if it trains or encodes."""
        if self.command == "baseline" and machines.device is not None:  # one process
            return [*self.words, "--device", machines.device]
        return [*self.words, *(machines.options if self.command in ("pretrain", "finetune", "encode") else [])]

    def text(self, machines: Machines = Machines()) -> str:
        """Return the line for a shell."""
        words = self.words_on(machines)
        text = " ".join(f"{shlex.quote(word[:-2])}/*" if word.endswith("/*") else shlex.quote(word) for word in words)
        if self.result is None:
            return text
        return f"mkdir -p {shlex.quote(str(self.result.parent))} && {text} > {shlex.quote(str(self.result))}"


def line(
    start: str,
    *subjects: object,
    output: Path | None = None,
    results: Path | None = None,
    source: str = "",
    **options: Any,
) -> Line:
    """Return the line of a command with its subjects and options. A digest of these, and of ``source`` for data that no
    line has written, is added to the name of the output, and names the file in ``results`` for what it prints."""
    words = [*start.split(), *map(str, subjects)]
    for name, value in options.items():
        words.append(f"--{name.replace('_', '-')}")
        if isinstance(value, list):
            words += map(str, value)
        elif value is not True:
            words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    digest = _digest(words, source)
    if output is not None:
        output = output.with_name(f"{output.stem}-{digest[:8]}{output.suffix}")
        words += ["--output", str(output)]
    words += _AGAIN.get(words[1], [])
    if results is None:
        return Line(tuple(words), output)
    return Line((*words, "--json"), output, results / f"{words[1]}-{digest}.json")


def _digest(*content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20]


# --- data -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """The data of a table, and one way to train and test on it."""

    kind: str  # in `OPTIONS`
    home: Path  # folder of everything computed from the data
    title: str  # of the data, for the heading of a table
    tested_on: str  # name of the data set
    index: tuple[Line, ...]  # lines that build its index, which the last one writes
    unlabeled: tuple[Line, ...]  # lines that build the index for pre-training: all videos, whatever their split
    direction: str = ""  # what is trained and tested on, in words, if there are two ways
    stores: Mapping[str, Path] = field(default_factory=dict)  # by data set its features, for data that is features
    sound: tuple[Line, ...] = ()  # line that makes a store of sound features, if all videos have sound
    options: StageOptions = field(default_factory=StageOptions)
    comparable: bool = False  # whether the paper's numbers were measured on it


def find_data(folder: Path | None, work: Path, options: StageOptions | None = None) -> list[Data]:
    """Return the data in a folder, once for each way to train and test on it. The folder is MovieNet's, or contains
    ``.npz`` features (in two subfolders: two data sets), or videos with their labels beside them. Default: MovieNet if
    it exists, else generated videos. ``work`` is for everything computed from it; ``options`` replace `OPTIONS`. Raises
    BasslError for any other folder, or too few videos."""
    if folder is None and not is_movienet(MOVIENET):
        home = work / "generated"
        movies = home / f"movies-{_digest(GENERATED)[:8]}"
        paths = [movies / f"video{seed:02}.mp4" for seed in range(VIDEOS)]
        makes = [
            line("python -m pipelines.datasets.synthetic", path, **GENERATED, seed=i) for i, path in enumerate(paths)
        ]
        makes = [replace(make, output=path) for make, path in zip(makes, paths, strict=True)]
        ways = [_videos("generated", f"{VIDEOS} generated videos", home, movies, [path.stem for path in paths], makes)]
    elif not (folder := folder or MOVIENET).is_dir():
        raise DatasetError(f"{folder}: no such folder; name one with videos and labels, features, or MovieNet")
    elif is_movienet(folder):
        ways = [_movienet(folder, work / "movienet")]
    elif next(shot_feature_files(folder), None) is not None:
        ways = _features(folder, work / folder.resolve().name)
    else:
        videos = find_videos([folder])
        beside = {file for video in videos for file in video.parent.iterdir() if file.is_file()}
        home, source = work / folder.resolve().name, _file_digest(folder, beside)
        data = _videos("videos", f"videos in {folder}", home, folder, video_ids(videos), [], source)
        if all(map(has_sound, videos)):
            sound = line("bassl extract-sound", folder, index=data.index[-1].output, output=home / "sound")
            data = replace(data, sound=(sound,))
        ways = [data]
    return [replace(data, options=OPTIONS[data.kind] if options is None else options) for data in ways]


def _videos(
    kind: str, title: str, home: Path, folder: Path, names: Sequence[str], makes: Sequence[Line], source: str = ""
) -> Data:
    keyframes = line("bassl extract-keyframes", folder, output=home / "keyframes", source=source)
    split = _split_line(home, _splits(names, folder))
    build = line("bassl build-index", keyframes.output, labels=folder, split=split.result, output=home / "index.h5")
    index = (*makes, keyframes, split, build)
    return Data(kind, home, title + _parts(names, folder), home.name, index, index)


def _movienet(folder: Path, home: Path) -> Data:
    present = videos_with_keyframes(folder)
    # Not all five million files: the labels, and the names of the videos.
    source = _file_digest(folder, [*folder.glob("anno/*"), *folder.glob("scene318/*/*")], *sorted(present))
    index = (line("bassl build-index", folder, only_complete=True, output=home / "index.h5", source=source),)
    title, labeled = "MovieNet, test split of MovieNet-SSeg", read_movienet_splits(folder).keys()
    if not (complete := bool(labeled) and labeled <= present):
        title = f"MovieNet with keyframes of {len(labeled & present)} of {len(labeled)} labeled videos"
    return Data("movienet", home, title, "movienet", index, index, comparable=complete)


def _features(folder: Path, home: Path) -> list[Data]:
    videos = read_shot_feature_folder(folder)
    sets: dict[str, list[str]] = {}
    for video in videos:
        sets.setdefault(video.video_id.split("/")[0], []).append(video.video_id)
    if len(sets) > 2:
        raise DatasetError(f"{folder}: contains {len(sets)} sets of features; give one, or two to test across")
    sources = {name: folder / name if (folder / name).is_dir() else folder for name in sets}
    counts = " and ".join(f"{name} ({count(len(ids), 'video')})" for name, ids in sets.items())
    source = _file_digest(folder, shot_feature_files(folder))
    output, width = home / f"features-{source[:8]}", videos[0].features.shape[1]
    stores = {name: output / f"{path.resolve().name}-{width}d" for name, path in sources.items()}
    build = functools.partial(line, "bassl build-index", *sources.values(), feature_folder=output, source=source)
    every = (build(output=home / "all.h5"),)

    def way(target: str, name: str, splits: Mapping[str, Sequence[str]], direction: str = "") -> Data:
        split = _split_line(home, splits)
        index = (split, build(split=split.result, output=home / f"{name}.h5"))
        return Data("features", home, f"features of {counts} in {folder}", target, index, every, direction, stores)

    if len(sets) == 1:
        counts += "".join(_parts(ids, folder) for ids in sets.values())
        return [way(name, "split", _splits(ids, folder)) for name, ids in sets.items()]
    ways = []
    for trained, target in (tuple(sets), tuple(sets)[::-1]):
        ids = sets[trained]
        training = [video for i, video in enumerate(ids) if i % 4 != 3]
        splits = {"train": training, "val": ids[3::4], "test": sets[target]}
        ways.append(way(target, f"{trained}-to-{target}", splits, f"trained on {trained}, tested on {target}"))
    return ways


def _splits(names: Sequence[str], source: Path) -> dict[str, list[str]]:
    """Return of every six videos three for training, one for validation and two for testing; of three, one each."""
    if len(names) < 3:
        raise BasslError(
            f"{source}: contains {count(len(names), 'video')}, but three are needed: to train, validate and test"
        )
    order = ("train", "train", "train", "val", "test", "test") if len(names) >= 6 else ("train", "val", "test")
    return {
        split: [name for i, name in enumerate(names) if order[i % len(order)] == split]
        for split in dict.fromkeys(order)
    }


def _parts(names: Sequence[str], source: Path) -> str:
    """Return how many of the videos are in each split, in words."""
    train, val, test = map(len, _splits(names, source).values())
    return f", {train} to train, {val} to validate, {test} to test"


def _split_line(home: Path, splits: Mapping[str, Sequence[str]]) -> Line:
    content = json.dumps(splits)
    return Line(("printf", "%s\\n", content), result=home / f"split-{_digest(content)[:8]}.json")


def _file_digest(folder: Path, files: Iterable[Path], *names: str) -> str:
    facts = [(path.relative_to(folder).as_posix(), path.stat()) for path in sorted(files)]
    return _digest(names, [(name, stat.st_size, stat.st_mtime_ns) for name, stat in facts])


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedRow:
    """A row of a table for one way to train and test, with what measures it."""

    table: str
    protocol: str  # the way to train and test, in words; empty if there is only one
    row: RowSpec
    wanted: bool  # whether to run it
    # by column, for each pre-training seed the lines, the last of which measures; or why there are none
    finals: Mapping[str, tuple[tuple[Line, ...], ...] | str]

    @property
    def lines(self) -> list[Line]:
        """Return all lines in order, each once; an empty list if the row cannot be measured."""
        measured = (final for final in self.finals.values() if not isinstance(final, str))
        return list(dict.fromkeys(line for final in measured for lines in final for line in lines))

    @property
    def epochs(self) -> int | None:
        """Return the epochs of pre-training, or None."""
        return next((int(line.option("epochs")) for line in self.lines if line.command == "pretrain"), None)

    @property
    def name(self) -> str:
        """Return the label, with the epochs of pre-training that are run in place of the paper's."""
        label = self.row.label
        match = re.search(r"(\d+) epochs", label) or (
            re.fullmatch(r"(\d+)", label) if self.table == "table4c" else None
        )
        if match is None or self.epochs in (None, int(match[1])):
            return label
        return f"{label[: match.start()]}{count(self.epochs or 0, 'epoch')}; paper: {match[1]}{label[match.end() :]}"

    @property
    def run(self) -> str:
        """Return in words what is run: the encoder, its training, fine-tuning and seeds."""
        last = {line.command: line for line in self.lines}
        if self.row.cells and all(metric == "chance" for _, metric in self.row.cells.values()):
            return ""
        parts = []
        if trained := last.get("pretrain"):
            what = "CRN on features" if trained.option("features") else trained.option("encoder") or PAPER_ENCODER
            parts.append(f"{what}, pre-trained {count(int(trained.option('epochs')), 'epoch')}")
        elif encode := last.get("encode"):
            parts.append(f"{encode.option('encoder')}, ImageNet weights")
        elif tuned := last.get("finetune"):
            encoder, init = tuned.option("encoder"), tuned.option("init")
            weights = f"{encoder}, ImageNet weights" if encoder else "features"
            parts.append(f"{PAPER_ENCODER}, Places365 weights" if init == str(PLACES365) else weights)
        if tuned := last.get("finetune"):
            parts.append(f"frozen encoder, {count(int(tuned.option('seeds')), 'fine-tuning seed')}")
        elif baseline := last.get("baseline"):
            seeds = baseline.option("seeds")
            parts.append(count(int(seeds), "training seed") if seeds else "not trained")
        else:
            parts.append("not fine-tuned")
        return "; ".join(parts)

    @property
    def label(self) -> str:
        """Return the row's label, with the reason if it cannot be measured."""
        absent = dict.fromkeys(map(str, self.finals.values()))
        return self.row.label if self.lines else f"{self.row.label} ({', '.join(absent)})"

    def text(self, machines: Machines = Machines()) -> tuple[str, ...]:
        """Return its shell lines."""
        return tuple(line.text(machines) for line in self.lines)


def planned_rows(settings: ReproduceSettings, ways: Sequence[Data]) -> list[PlannedRow]:
    """Return all rows of a table, for each way to train and test. Raises BasslError for unknown rows, or data that the
    table cannot be measured on."""
    names = TABLES[settings.table]
    labels = list(dict.fromkeys(row.label for name in names for row in ROWS[name]))
    for pattern in settings.rows:
        if not any(_matches(label, [pattern]) for label in labels):
            raise BasslError(f"{settings.table} has no row {pattern!r}; choose from {', '.join(labels)}")
    if names == (ACROSS,) and ways[0].kind != "movienet" and len(ways) < 2:
        raise BasslError(
            f"bbc-ovsd tests on other sets than it trains on, but {ways[0].title} are one set; use MovieNet, or `data` "
            "with a folder that contains two folders of features"
        )
    planned = []
    for name in names:
        for data in ways:
            planner, rows = Planner(data, settings), ROWS[name]
            if name == ACROSS and data.kind != "movienet":  # its rows are the sets that are tested on, here one set
                same = [row for row in rows if row.label.lower() == data.tested_on.lower()]
                rows = tuple(same) or (replace(rows[0], label=data.tested_on),)
            for row in rows:
                finals = {column: planner.finals_of(row, *cell) for column, cell in row.cells.items()}
                wanted = not settings.rows or _matches(row.label, settings.rows)
                planned.append(PlannedRow(name, data.direction, row, wanted, finals))
    return planned


def _matches(label: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(label.lower(), pattern.lower()) for pattern in patterns)


@dataclass(frozen=True)
class Planner:
    """Makes the lines for one way to train and test."""

    data: Data
    settings: ReproduceSettings
    pretrain_seed: int = 0

    def finals_of(self, row: RowSpec, system: SystemSpec, metric: str) -> tuple[tuple[Line, ...], ...] | str:
        """Return `lines_of` for each pre-training seed, once for a system without pre-training."""
        seeds = self.settings.pretrain_seeds if system.encoder in PRETRAINING and metric != "chance" else 1
        finals = []
        for seed in range(seeds):
            lines = replace(self, pretrain_seed=seed).lines_of(row, system, metric)
            if isinstance(lines, str):
                return lines
            finals.append(lines)
        return tuple(finals)

    def lines_of(self, row: RowSpec, system: SystemSpec, metric: str) -> tuple[Line, ...] | str:
        """Return the lines for a number, the last of which measures it; or why it cannot be measured."""
        data, run = self.data, system.encoder if system.encoder in PRETRAINING else None
        nmi = metric.startswith("nmi")  # of an encoder, which fine-tuning does not change
        trains_encoder = run and (nmi or trains_shots_only(run) or (system.finetuned and not system.transfers_crn))
        if data.stores and (trains_encoder or system.encoder == "Places365"):
            return "needs videos"
        if system.baseline is not None:
            return self._baseline(system.baseline)
        if nmi or not system.finetuned:
            return self._untuned(run, nmi)
        if system.encoder == "Places365" and not PLACES365.exists():
            return "weights not there (data/README.md)"
        lines = self._finetuning(system, run)
        if data.kind != "movienet" or row not in ROWS[ACROSS]:
            return lines
        other = OTHER_SETS[row.label]
        if not other.exists():
            return f"{row.label} not there (data/README.md)"
        return (*lines, self._score(lines[-1].output, source=_file_digest(Path(), [other]), index=other, split="all"))

    def _baseline(self, name: str) -> tuple[Line, ...]:
        data, needs = self.data, self.data.index
        options: dict[str, Any] = {"index": needs[-1].output}
        if data.stores:
            options |= {"features": tuple(data.stores.values()), "frame_rate": FRAME_RATE}
        else:
            needs = (*needs, self._encode_images())
            options["features"] = f"{self._image_folder}/*"
            if SYSTEMS[name].several and data.sound:
                needs = (*needs, *data.sound)
                options["extra"] = data.sound[-1].output
        if SYSTEMS[name].trainer:
            options["seeds"] = self.settings.seeds
        return (
            *needs,
            line("bassl baseline", data.options.baselines.get(name, name), results=self._results, **options),
        )

    def _untuned(self, run: str | None, nmi: bool) -> tuple[Line, ...]:
        """Return the lines that score a pre-trained run, or the features of an encoder, as they are."""
        data = self.data
        representation: dict[str, Any] = {"representation": True} if nmi else {}
        if run is not None:
            lines = (*data.index, *self._pretraining(run))
            model = lines[-1].output
            if not data.stores:  # on all GPUs; `bassl score` would take one
                lines = (*lines, self._encode(model, data.home / "features"))
            return (*lines, self._score(model, **representation))
        if data.stores:
            return (*data.index, self._score(data.stores[data.tested_on], **representation))
        return (*data.index, self._encode_images(), self._score(f"{self._image_folder}/*", **representation))

    def _score(self, subject: object, source: str = "", **options: Any) -> Line:
        stores = [*self.data.stores.values()]
        features = stores[0].parent if stores else self.data.home / "features"
        scoring: dict[str, Any] = {"index": self.data.index[-1].output, "features": features, "resamples": 0}
        if stores:
            scoring["frame_rate"] = FRAME_RATE
        return line("bassl score", subject, results=self._results, source=source, **scoring | options)

    def _pretraining(self, run: str) -> tuple[Line, ...]:
        data = self.data
        if run == "bassl-k8" and "neighbors" not in data.options.pretrain:
            run = "bassl-10"  # K = 8 is the default: the same run as in the other tables
        options: dict[str, Any] = {"index": data.unlabeled[-1].output}
        if data.stores:
            options["features"] = tuple(data.stores.values())
        epochs = PRETRAINING[run].get("epochs", 10)
        options |= {
            **data.options.pretrain,
            **(data.options.long_pretrain if epochs > LONG else {}),
            **PRETRAINING[run],
        }
        options["epochs"] = max(1, round(epochs / 10 * (self.settings.epochs or data.options.epochs)))
        if self.pretrain_seed:
            options["seed"] = self.pretrain_seed
        return (*data.unlabeled, line("bassl pretrain", output=data.home / "pretrain" / run, **options))

    def _finetuning(self, system: SystemSpec, run: str | None) -> tuple[Line, ...]:
        data, needs, features, source = self.data, self.data.index, self.data.home / "features", ""
        options: dict[str, Any] = {"index": needs[-1].output, "crn": system.crn, "seeds": self.settings.seeds}
        options["select"] = "last"  # the release's epoch
        if run is not None:
            needs = (*needs, *self._pretraining(run))
            options |= {"init": needs[-1].output, "transfer": "encoder+crn" if system.transfers_crn else "encoder"}
        elif system.encoder == "Places365":
            source = _file_digest(Path(), [PLACES365])
            options |= {"init": PLACES365, "transfer": "encoder"}
        else:
            options["init"] = "none"
            if not data.stores:
                features = self._image_folder
                options |= {"encoder": image_encoder(), "preparation": data.options.preparation}
        options |= {"features": tuple(data.stores.values())} if data.stores else {"feature_folder": features}
        options |= data.options.finetune.get(system.crn, {})
        if not system.transfers_crn:
            options |= data.options.network.get(system.crn, {})
        name = f"{system.encoder.lower()}{'' if system.transfers_crn else '-encoder'}-{system.crn}"
        output = data.home / data.tested_on / name
        return (*needs, line("bassl finetune", output=output, results=self._results, source=source, **options))

    def _encode_images(self) -> Line:
        return self._encode(image_encoder(), self._image_folder, preparation=self.data.options.preparation)

    def _encode(self, encoder: object, output: Path, **options: Any) -> Line:
        if self.data.kind == "movienet":  # in other data all videos have labels
            options["labeled"] = True
        index = self.data.index[-1].output
        return Line((*line("bassl encode", index, encoder=encoder, **options).words, "--output", str(output)), output)

    @property
    def _results(self) -> Path:
        return self.data.home / "results"

    @property
    def _image_folder(self) -> Path:
        """Return the folder that contains one store, the features with ImageNet weights."""
        return self.data.home / f"features-{image_encoder()}-{self.data.options.preparation}"


@functools.cache
def image_encoder() -> str:
    """Return the encoder with ImageNet weights: the paper's, or the built-in one if these cannot be downloaded."""
    try:
        load_encoder(PAPER_ENCODER, "cpu")
    except BasslError:
        return DEFAULT_ENCODER
    return PAPER_ENCODER
