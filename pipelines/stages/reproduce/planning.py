"""Command lines that measure the rows of a table, for each way to train and test on the data.

The name of an output contains a digest of the command that makes it, and so of everything that determines it: other
settings or data have another output, and an existing output was made by the same command, whoever ran it."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import cycle, pairwise
from pathlib import Path
from shlex import quote
from typing import Any

from pipelines.baselines import SYSTEMS
from pipelines.datasets.movienet import is_movienet, read_movienet_splits, videos_with_keyframes
from pipelines.datasets.sources import read_shot_feature_folder, shot_feature_files
from pipelines.errors import BasslError, DatasetError, count
from pipelines.models.encoder_loading import load_encoder
from pipelines.models.encoders import DEFAULT_ENCODER
from pipelines.stages.reproduce import (
    ACROSS,
    PRETRAINING,
    ROWS,
    TABLES,
    ReproduceSettings,
    RowSpec,
    SystemSpec,
    trains_shots_only,
)
from pipelines.stores.index import ASSUMED_FRAME_RATE
from pipelines.video.inputs import find_videos, video_ids
from pipelines.video.sound import has_sound

MOVIENET = Path("data/movienet")
PLACES365 = Path("data/places365/model.safetensors")
OTHER_SETS: Mapping[str, Path] = {"BBC": Path("data/bbc/index.h5"), "OVSD": Path("data/ovsd/index.h5")}
"""Indices of the sets that a model from MovieNet is tested on (data/README.md)."""
PAPER_ENCODER = "resnet50"  # with ImageNet weights in the paper (section 4.1)
VIDEOS = 12
_SHOTS = {"scenes": 14, "shots_per_scene": [4, 9], "shot_seconds": [0.4, 0.8]}
GENERATED: Mapping[str, Any] = {**_SHOTS, "width": 160, "height": 90}
"""Options of the generated videos: a minute each, long enough for scenes that differ, small enough for two cores."""

_SMALL = {"width": 64, "heads": 4}
_FINETUNE = {"epochs": 10, "batch": 128, "rate": 5e-4}
_FROM_SCRATCH = {"transformer": _SMALL, "mlp": {"width": 128}, "ms-lstm": {"width": 32}}
_TINY = {"encoder": "timm:test_resnet", "size": 32, "kernel_size": 3, "workers": 1}
OPTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "movienet": {},
    # Two or three dozen videos: with the paper's batch sizes and rates the epochs end before the loss falls. These were
    # chosen by the losses of pre-training.
    "features": {
        "pretrain": {"batch": 16, "base_rate": 24.0, **_SMALL},
        # Forty epochs spend thousands of steps near the peak rate, and at the rate of ten epochs the loss rises again.
        "long pretrain": {"base_rate": 6.0},
        "finetune": _FINETUNE,
        **_FROM_SCRATCH,
        "ms-lstm": {"width": 32, "rate": 1e-3},
    },
    "videos": {
        "pretrain": {"encoder": "resnet18", "size": 112, "batch": 64, "base_rate": 3.0, **_SMALL},
        "finetune": _FINETUNE,
        **_FROM_SCRATCH,
    },
    "generated": {
        "pretrain": {**_TINY, "batch": 32, "base_rate": 6.0, "neighbors": 4, **_SMALL},
        "finetune": {"epochs": 20, "batch": 32, "rate": 3e-3},
        "transformer": {"neighbors": 4, **_SMALL},
        "mlp": {"neighbors": 4, "width": 128},
        # With fewer epochs some seeds stay at a loss of ln 2: the LSTM's input has unit length and varies little.
        "ms-lstm": {"width": 32, "epochs": 60},
    },
}
"""By the kind of data, options that differ from the paper's: of pre-training, with more for over 20 epochs; of
fine-tuning a network of the paper, with more for each of these networks from scratch."""


_AGAIN = {"build-index": ["--overwrite"], "pretrain": ["--resume"], "finetune": ["--resume"]}  # for a second run


@dataclass(frozen=True)
class Line:
    """One command line."""

    words: tuple[str, ...]  # a word that ends in /* stands for what the folder contains
    output: Path | None = None  # file or folder that it writes
    result: Path | None = None  # file for what it prints
    needs: tuple[Line, ...] = ()  # lines to run before

    @property
    def command(self) -> str:
        """Return its command of bassl, make-video or write-split."""
        return {"bassl": self.words[1], "python": "make-video"}.get(self.words[0], "write-split")

    @property
    def chain(self) -> list[Line]:
        """Return all lines to run for this one, which is the last, in order and each once."""
        return list(dict.fromkeys([*(line for need in self.needs for line in need.chain), self]))

    @property
    def text(self) -> str:
        """Return the line for a shell."""
        text = " ".join(f"{quote(word[:-2])}/*" if word.endswith("/*") else quote(word) for word in self.words)
        if self.result is None:
            return text
        return f"mkdir -p {quote(str(self.result.parent))} && {text} > {quote(str(self.result))}"


def line(
    start: str,
    *subjects: object,
    needs: Sequence[Line] = (),
    output: Path | None = None,
    results: Path | None = None,
    source: str = "",
    machines: Sequence[str] = (),
    **options: Any,
) -> Line:
    """Return the line of a command with its subjects and options. A digest of these, and of ``source`` for data that no
    line has written, is added to the name of the output, and names the file for what it prints, in a folder of
    ``results``. Options of the ``machines`` change no result and have no part in it."""
    words = [*start.split(), *map(str, subjects)]
    for name, value in options.items():
        if value is not False:
            words.append(f"--{name.replace('_', '-')}")
        if isinstance(value, list):
            words += map(str, value)
        elif not isinstance(value, bool):
            words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    digest = _digest(words, source)
    if output is not None:
        output = output.with_name(f"{output.stem}-{digest[:8]}{output.suffix}")
        words += ["--output", str(output)]
    words += [*_AGAIN.get(words[1], []), *["--json"] * (results is not None), *machines]
    result = None if results is None else results / "results" / f"{words[1]}-{digest}.json"
    return Line(tuple(words), output, result, tuple(needs))


def _digest(*content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20]


def _file_digest(folder: Path, files: Iterable[Path], *names: str) -> str:
    facts = [(path.relative_to(folder).as_posix(), path.stat()) for path in sorted(files)]
    return _digest(names, [(name, stat.st_size, stat.st_mtime_ns) for name, stat in facts])


@dataclass(frozen=True)
class Data:
    """The data of a table, and one way to train and test on it, which makes the lines of rows."""

    settings: ReproduceSettings
    kind: str  # in `OPTIONS`
    home: Path  # folder of everything computed from the data
    title: str  # of the data, for the heading of a table
    tested_on: str  # name of the data set
    index: Line  # which builds its index
    unlabeled: Line  # which builds the index for pre-training: all videos, whatever their split
    protocol: str = ""  # what is trained and tested on, in words, if there are two ways
    stores: Mapping[str, Path] = field(default_factory=dict)  # by data set its features, for data that is features
    sound: Line | None = None  # which makes a store of sound features, if all videos have sound
    comparable: bool = False  # whether the paper's numbers were measured on it

    def final_of(self, row: RowSpec, system: SystemSpec, metric: str) -> Line | str:
        """Return the line that measures a number, or why it cannot be measured."""
        run = system.encoder if system.encoder in PRETRAINING else None
        nmi = metric.startswith("nmi")  # of an encoder, which fine-tuning does not change
        trains_encoder = run and (nmi or trains_shots_only(run) or (system.finetuned and not system.transfers_crn))
        if self.stores and (trains_encoder or system.encoder == "Places365"):
            return "needs videos"
        other = OTHER_SETS[row.label] if self.kind == "movienet" and row in ROWS[ACROSS] else None
        for path in (PLACES365 if system.encoder == "Places365" else None, other):
            if path is not None and not path.exists():
                return f"needs {path}"
        if system.baseline is not None:
            return self._baseline(system.baseline)
        pretrained = self._pretraining(run) if run else None
        is_scored = nmi or not system.finetuned
        final = self._untuned(pretrained, nmi) if is_scored else self._finetuning(system, pretrained)
        if other is not None:
            final = self._score(final.output, (final,), _file_digest(Path(), [other]), index=other, split="all")
        return final

    def _baseline(self, name: str) -> Line:
        needs, device = [self.index], self.settings.machines.device
        options: dict[str, Any] = {"index": self.index.output, **self._features}
        if self.stores:
            options["frame_rate"] = ASSUMED_FRAME_RATE
        else:
            needs.append(self._encode())
            options["features"] = f"{self._image_folder}/*"
            if SYSTEMS[name].several and self.sound:
                needs.append(self.sound)
                options["extra"] = self.sound.output
        if SYSTEMS[name].trainer:
            options["seeds"] = self.settings.seeds
        if name == "lgss" and self.kind == "movienet":
            name = "lgss-movienet"
        machines = () if device is None else ("--device", device)  # one process
        return line("bassl baseline", name, needs=needs, results=self.home, machines=machines, **options)

    def _untuned(self, pretrained: Line | None, nmi: bool) -> Line:
        """Return the line that scores a pre-trained run, or the features of an encoder, as they are."""
        needs = [self.index, *([pretrained] if pretrained else [])]
        if not self.stores:  # on all GPUs; `bassl score` would take one
            needs.append(self._encode(pretrained))
        subject = pretrained.output if pretrained else self.stores.get(self.tested_on) or f"{self._image_folder}/*"
        return self._score(subject, needs, representation=nmi)

    def _score(self, subject: object, needs: Sequence[Line], source: str = "", **options: Any) -> Line:
        scoring: dict[str, Any] = {"index": self.index.output, "features": self.home / "features", "resamples": 0}
        if self.stores:
            scoring |= {"features": self.stores[self.tested_on].parent, "frame_rate": ASSUMED_FRAME_RATE}
        return line("bassl score", subject, needs=needs, results=self.home, source=source, **scoring | options)

    def _pretraining(self, run: str) -> Line:
        defaults = OPTIONS[self.kind]
        if run == "bassl-k8" and "neighbors" not in defaults.get("pretrain", {}):
            run = "bassl-10"  # K = 8 is the default: the same run as in the other tables
        epochs = PRETRAINING[run].get("epochs", 10)
        options = {"index": self.unlabeled.output, **self._features, **defaults.get("pretrain", {})}
        options |= {**(defaults.get("long pretrain", {}) if epochs > 20 else {}), **PRETRAINING[run]}
        options["epochs"] = max(1, round(epochs / 10 * (self.settings.epochs or 10)))
        machines, output = self.settings.machines.options, self.home / "pretrain" / run
        return line("bassl pretrain", needs=(self.unlabeled,), output=output, machines=machines, **options)

    def _finetuning(self, system: SystemSpec, pretrained: Line | None) -> Line:
        defaults, needs, source = OPTIONS[self.kind], [self.index], ""
        folder, options = self.home / "features", dict[str, Any](index=self.index.output, crn=system.crn)
        options |= {"seeds": self.settings.seeds, "select": "last"}  # the release's epoch
        if pretrained is not None:
            needs.append(pretrained)
            options |= {"init": pretrained.output, "transfer": "encoder+crn" if system.transfers_crn else "encoder"}
        elif system.encoder == "Places365":
            source = _file_digest(Path(), [PLACES365])
            options |= {"init": PLACES365, "transfer": "encoder"}
        else:
            options["init"] = "none"
            if not self.stores:
                options |= self._imagenet
                folder = self._image_folder
        options |= self._features or {"feature_folder": folder}
        if system.crn != "relational":  # its defaults suit small sets
            options |= defaults.get("finetune", {})
        if not system.transfers_crn:
            options |= defaults.get(system.crn, {})
        name = f"{system.encoder.lower()}{'' if system.transfers_crn else '-encoder'}-{system.crn}"
        options |= {"output": self.home / self.tested_on / name, "machines": self.settings.machines.options}
        return line("bassl finetune", needs=needs, results=self.home, source=source, **options)

    def _encode(self, pretrained: Line | None = None) -> Line:
        """Return the line that computes features by a pre-trained run, or by the encoder with ImageNet weights."""
        output = self._image_folder if pretrained is None else self.home / "features"
        options = self._imagenet if pretrained is None else {"encoder": pretrained.output}
        is_movienet = self.kind == "movienet"  # in other data all videos have labels
        words = line("bassl encode", self.index.output, **options, labeled=is_movienet).words
        return Line((*words, "--output", str(output), *self.settings.machines.options), output)

    @property
    def _features(self) -> dict[str, Any]:
        """Return the option for data that is features."""
        return {"features": tuple(self.stores.values())} if self.stores else {}

    @property
    def _imagenet(self) -> dict[str, Any]:
        """Return the options of the encoder with ImageNet weights; for MovieNet it sees centers, as in the release."""
        return {"encoder": image_encoder(), "preparation": "center" if self.kind == "movienet" else "squeeze"}

    @property
    def _image_folder(self) -> Path:
        """Return the folder that contains one store, the features with ImageNet weights."""
        return self.home / f"features-{'-'.join(self._imagenet.values())}"


@functools.cache
def image_encoder() -> str:
    """Return the encoder with ImageNet weights: the paper's, or the built-in one if these cannot be downloaded."""
    try:
        load_encoder(PAPER_ENCODER, "cpu")
    except BasslError:
        return DEFAULT_ENCODER
    return PAPER_ENCODER


def find_data(settings: ReproduceSettings) -> list[Data]:
    """Return the data of a table, once for each way to train and test on it: MovieNet, or ``.npz`` features (in two
    subfolders: two data sets), or videos with their labels beside them. Default: MovieNet if it exists, else generated
    videos. Raises BasslError for any other folder, or too few videos."""
    folder, work = settings.data or MOVIENET, settings.output / "work"
    if settings.data is None and not is_movienet(MOVIENET):
        home = work / "generated"
        folder = home / f"movies-{_digest(GENERATED)[:8]}"
        paths = [folder / f"video{seed:02}.mp4" for seed in range(VIDEOS)]
        draw = functools.partial(line, "python -m pipelines.datasets.synthetic", **GENERATED)
        needs = [replace(draw(path, seed=seed), output=path) for seed, path in enumerate(paths)]
        title, names = f"{VIDEOS} generated videos", [path.stem for path in paths]
        return [_videos(settings, "generated", title, home, folder, names, needs=needs)]
    home = work / folder.resolve().name
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder; name one with videos and labels, features, or MovieNet")
    if is_movienet(folder):
        return [_movienet(settings, folder, work / "movienet")]
    if next(shot_feature_files(folder), None) is not None:
        return _features(settings, folder, home)
    videos = find_videos([folder])
    source = _file_digest(folder, {file for video in videos for file in video.parent.iterdir() if file.is_file()})
    data = _videos(settings, "videos", f"videos in {folder}", home, folder, video_ids(videos), source=source)
    if all(map(has_sound, videos)):
        data = replace(data, sound=line("bassl extract-sound", folder, index=data.index.output, output=home / "sound"))
    return [data]


def _videos(
    settings: ReproduceSettings, kind: str, title: str, home: Path, folder: Path, names: Sequence[str], **source: Any
) -> Data:
    splits, parts = _splits(names, folder)
    split = _split_line(home, splits)
    keyframes = line("bassl extract-keyframes", folder, output=home / "keyframes", **source)
    files: dict[str, Any] = {"labels": folder, "split": split.result, "output": home / "index.h5"}
    index = line("bassl build-index", keyframes.output, needs=(keyframes, split), **files)
    return Data(settings, kind, home, title + parts, home.name, index, index)


def _movienet(settings: ReproduceSettings, folder: Path, home: Path) -> Data:
    present = videos_with_keyframes(folder)
    # Not all five million files: the labels, and the names of the videos.
    source = _file_digest(folder, [*folder.glob("anno/*"), *folder.glob("scene318/*/*")], *sorted(present))
    index = line("bassl build-index", folder, only_complete=True, output=home / "index.h5", source=source)
    title, labeled = "MovieNet, test split of MovieNet-SSeg", read_movienet_splits(folder).keys()
    if not (complete := bool(labeled) and labeled <= present):
        title = f"MovieNet with keyframes of {len(labeled & present)} of {len(labeled)} labeled videos"
    return Data(settings, "movienet", home, title, "movienet", index, index, comparable=complete)


def _features(settings: ReproduceSettings, folder: Path, home: Path) -> list[Data]:
    videos = read_shot_feature_folder(folder)
    sets: dict[str, list[str]] = {}
    for video in videos:
        sets.setdefault(video.video_id.split("/")[0], []).append(video.video_id)
    if len(sets) > 2:
        raise DatasetError(f"{folder}: contains {len(sets)} sets of features; give one, or two to test across")
    sources = {name: folder / name if (folder / name).is_dir() else folder for name in sets}
    title = "features of " + " and ".join(f"{name} ({count(len(ids), 'video')})" for name, ids in sets.items())
    source = _file_digest(folder, shot_feature_files(folder))
    output, width = home / f"features-{source[:8]}", videos[0].features.shape[1]
    stores = {name: output / f"{path.resolve().name}-{width}d" for name, path in sources.items()}
    build = functools.partial(line, "bassl build-index", *sources.values(), feature_folder=output, source=source)
    every, ways = build(output=home / "all.h5"), []
    for target, trained in zip(sets, reversed(sets), strict=True):
        if len(sets) == 1:
            name, protocol = "split", ""
            splits, parts = _splits(sets[target], folder)
            title += parts
        else:
            name, protocol = f"{trained}-to-{target}", f"trained on {trained}, tested on {target}"
            training = [video for i, video in enumerate(sets[trained]) if i % 4 != 3]
            splits = {"train": training, "val": sets[trained][3::4], "test": sets[target]}
        split = _split_line(home, splits)
        index = build(needs=(split,), split=split.result, output=home / f"{name}.h5")
        ways.append(Data(settings, "features", home, f"{title} in {folder}", target, index, every, protocol, stores))
    return ways[::-1]


def _splits(names: Sequence[str], source: Path) -> tuple[dict[str, list[str]], str]:
    """Return of six videos three to train, one to validate and two to test, of three one each; and the counts."""
    if len(names) < 3:
        raise BasslError(f"{source}: contains {count(len(names), 'video')}, but three are needed: one for each split")
    order = ("train", "train", "train", "val", "test", "test") if len(names) >= 6 else ("train", "val", "test")
    splits: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for name, split in zip(names, cycle(order), strict=False):
        splits[split].append(name)
    train, val, test = map(len, splits.values())
    return splits, f", {train} to train, {val} to validate, {test} to test"


def _split_line(home: Path, splits: Mapping[str, Sequence[str]]) -> Line:
    content = json.dumps(splits)
    return Line(("printf", "%s\\n", content), result=home / f"split-{_digest(content)[:8]}.json")


@dataclass(frozen=True)
class PlannedRow:
    """A row of a table for one way to train and test, with what measures it."""

    table: str
    protocol: str  # the way to train and test, in words; empty if there is only one
    spec: RowSpec
    wanted: bool  # whether to run it
    finals: Mapping[str, Line | str]  # by column, what measures it, or why it cannot be measured

    @property
    def measuring(self) -> list[tuple[Line, str]]:
        """Return the lines that measure its numbers, each with the metric; an empty list if it cannot be measured."""
        finals = ((final, self.spec.cells[column][1]) for column, final in self.finals.items())
        return [(final, metric) for final, metric in finals if isinstance(final, Line)]

    @property
    def lines(self) -> list[Line]:
        """Return all lines in order, each once."""
        return list(dict.fromkeys(line for final, _ in self.measuring for line in final.chain))

    @property
    def run(self) -> str:
        """Return in short what is run: commands that train or encode, with encoder, epochs and seeds."""
        texts = []
        for line in self.lines:
            values = {word[2:]: value for word, value in pairwise(line.words) if word.startswith("--")}
            options = [f"{name} {Path(values[name]).name}" for name in ("encoder", "epochs", "seeds") if name in values]
            texts += [f"{line.command} ({', '.join(options)})"] if options else []
        return "; ".join(dict.fromkeys(texts))


def planned_rows(settings: ReproduceSettings, ways: Sequence[Data]) -> list[PlannedRow]:
    """Return all rows of a table, for each way to train and test. Raises BasslError for unusable rows or data."""
    names = TABLES[settings.table]
    labels = list(dict.fromkeys(row.label for name in names for row in ROWS[name]))
    for pattern in settings.rows:
        if not any(fnmatchcase(label.lower(), pattern.lower()) for label in labels):
            raise BasslError(f"{settings.table} has no row {pattern!r}; choose from {', '.join(labels)}")
    if names == (ACROSS,) and ways[0].kind != "movienet" and len(ways) < 2:
        raise BasslError("bbc-ovsd needs MovieNet, or `data` with two folders of features, to train and to test on")
    planned = []
    for name in names:
        for data in ways:
            rows = ROWS[name]
            if name == ACROSS and data.kind != "movienet":  # its rows are the sets that are tested on, here one set
                same = [row for row in rows if row.label.lower() == data.tested_on.lower()]
                rows = tuple(same) or (replace(rows[0], label=data.tested_on),)
            for row in rows:
                finals = {column: data.final_of(row, *cell) for column, cell in row.cells.items()}
                wanted = any(fnmatchcase(row.label.lower(), pattern.lower()) for pattern in settings.rows or ("*",))
                planned.append(PlannedRow(name, data.protocol, row, wanted, finals))
    return planned


def script(rows: Iterable[PlannedRow]) -> str:
    """Return the shell lines of the wanted rows, each once, below a comment with the row that needs it first."""
    lines: dict[str, None] = {}
    for row in (row for row in rows if row.wanted):
        absent = "" if row.lines else f" ({', '.join(dict.fromkeys(map(str, row.finals.values())))})"
        lines[f"# {row.table}{f', {row.protocol}' * bool(row.protocol)}: {row.spec.label}{absent}"] = None
        lines |= dict.fromkeys(line.text for line in row.lines)
    return "".join(f"{line}\n" for line in lines)
