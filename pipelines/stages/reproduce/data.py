"""The data of a table: where it is, how it is split, and the options of the stages for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pipelines.datasets.movienet import is_movienet, read_movienet_splits, videos_with_keyframes
from pipelines.datasets.shot_features import read_shot_feature_folder, shot_feature_files
from pipelines.errors import BasslError, DatasetError, count
from pipelines.stages.reproduce.settings import TABLES, StageOptions
from pipelines.stages.reproduce.steps import MAKE_VIDEO, Step, writing
from pipelines.video.inputs import find_videos, video_ids
from pipelines.video.sound import has_sound

Kind = Literal["movienet", "features", "videos", "generated"]

MOVIENET = Path("data/movienet")
PLACES365 = Path("data/places365/model.safetensors")
OTHER_SETS: Mapping[str, Path] = {"BBC": Path("data/bbc/index.h5"), "OVSD": Path("data/ovsd/index.h5")}
"""Indices of the sets that a model from MovieNet is tested on (data/README.md)."""
FRAME_RATE = 25.0
"""Frames per second of feature files, which do not contain it."""

_NETWORKS = ("transformer", "mlp", "ms-lstm")  # the paper's; the defaults of the relational one suit small sets
_SMALL = {"width": 64, "heads": 4}
_TINY = {"encoder": "timm:test_resnet", "size": 32, "kernel_size": 3, "decoded_size": 36, "workers": 1}
OPTIONS: Mapping[Kind, StageOptions] = {
    # All encoders see the centre of a keyframe, as in the paper's release.
    "movienet": StageOptions(baselines={"lgss": "lgss-movienet"}, preparation="centre"),
    # Two or three dozen videos: with the paper's batch sizes and rates the epochs end before the loss falls. These were
    # chosen by the losses of pre-training.
    "features": StageOptions(
        pretrain={"batch": 16, "base_rate": 24.0, **_SMALL},
        # Forty epochs spend thousands of steps near the peak rate, and at the rate of ten epochs the loss rises again.
        long_pretrain={"base_rate": 6.0},
        finetune={crn: {"epochs": 10, "batch": 128, "rate": 5e-4} for crn in _NETWORKS},
        network={"transformer": _SMALL, "mlp": {"width": 128}, "ms-lstm": {"width": 32, "rate": 1e-3}},
    ),
    "videos": StageOptions(
        pretrain={"encoder": "resnet18", "size": 112, "decoded_size": 128, "batch": 64, "base_rate": 3.0, **_SMALL},
        finetune={crn: {"epochs": 10, "batch": 128, "rate": 5e-4} for crn in _NETWORKS},
        network={"transformer": _SMALL, "mlp": {"width": 128}, "ms-lstm": {"width": 32}},
    ),
    "generated": StageOptions(
        pretrain={**_TINY, "batch": 32, "base_rate": 6.0, "neighbours": 4, **_SMALL},
        finetune={crn: {"epochs": 20, "batch": 32, "rate": 3e-3} for crn in _NETWORKS},
        network={
            "transformer": {"neighbours": 4, **_SMALL},
            "mlp": {"neighbours": 4, "width": 128},
            # With fewer epochs some seeds stay at a loss of ln 2: the LSTM's input has unit length and varies little.
            "ms-lstm": {"width": 32, "epochs": 60},
        },
    ),
}

VIDEOS = 12
GENERATED = {"scenes": 14, "shots_per_scene": [4, 9], "shot_seconds": [0.4, 0.8], "width": 160, "height": 90}
"""Options of the generated videos: a minute each, long enough for scenes that differ, small enough for two cores."""
_SPLITS = ("train", "train", "train", "val", "test", "test")


@dataclass(frozen=True)
class Data:
    """The data of a table, and one way to train and test on it."""

    kind: Kind
    home: Path  # folder of everything computed from the data
    title: str  # of the data, for the heading of a table
    tested_on: str  # name of the data set
    index: Step  # builds its index
    unlabelled: Step  # builds the index for pre-training: all videos, whatever their split
    splits: tuple[Path, bytes] | None = None  # the file that assigns videos to splits, and its content
    direction: str = ""  # what is trained and tested on, in words, if there are two ways
    stores: Mapping[str, Path] = field(default_factory=dict)  # by data set its features, for data that is features
    sound: Step | None = None  # makes a store of sound features, if all videos have sound
    options: StageOptions = field(default_factory=StageOptions)
    comparable: bool = False  # whether the paper's numbers were measured on it

    @property
    def feature_folder(self) -> Path:
        return next((store.parent for store in self.stores.values()), self.home / "features")


def find_data(folder: Path | None, work: Path, options: StageOptions | None = None) -> list[Data]:
    """The data in a folder, by default MovieNet if it exists, else generated videos; one element for each way to train
    and test on it. The folder is MovieNet's, or contains ``.npz`` features (in two subfolders: two data sets), or
    videos with their labels beside them. ``work`` is for everything computed from it; ``options`` replace `OPTIONS`.
    Raises BasslError for any other folder, or too few videos."""
    if folder is None and is_movienet(MOVIENET):
        folder = MOVIENET
    if folder is None:
        ways = [_generated(work / "generated")]
    elif not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder; name one with videos and labels, features, or MovieNet")
    elif is_movienet(folder):
        ways = [_movienet(folder, work)]
    elif next(shot_feature_files(folder), None) is not None:
        ways = _features(folder, work / folder.resolve().name)
    else:
        ways = [_own_videos(folder, work / folder.resolve().name)]
    return [replace(data, options=OPTIONS[data.kind] if options is None else options) for data in ways]


def _movienet(folder: Path, work: Path) -> Data:
    data = movienet_data(folder, work / "movienet", _digest(folder, work))
    labelled, there = read_movienet_splits(folder).keys(), videos_with_keyframes(folder)
    if labelled and labelled <= there:
        return data
    title = f"MovieNet with keyframes of {len(labelled & there)} of {len(labelled)} labelled videos"
    return replace(data, title=title, comparable=False)


def movienet_data(folder: Path, home: Path, digest: str = "") -> Data:
    """MovieNet with all its files, without reading the folder."""
    index = writing(Step("build-index", {"only_complete": True}, (str(folder),), source=digest), home / "index.h5")
    title = "MovieNet, test split of MovieNet-SSeg"
    return Data("movienet", home, title, "movienet", index, index, comparable=True)


def _features(folder: Path, home: Path) -> list[Data]:
    videos = read_shot_feature_folder(folder)
    sets: dict[str, list[str]] = {}
    for video in videos:
        sets.setdefault(video.video_id.split("/")[0], []).append(video.video_id)
    if len(sets) > 2:
        raise DatasetError(f"{folder}: contains {len(sets)} sets of features; give one, or two to test across")
    sources = {name: folder / name if (folder / name).is_dir() else folder for name in sets}
    counts = " and ".join(f"{name} ({count(len(ids), 'video')})" for name, ids in sets.items())
    title, digest = f"features of {counts} in {folder}", _digest(folder, home.parent)
    width = videos[0].features.shape[1]
    output = home / f"features-{digest[:8]}"
    stores = {name: output / f"{source.resolve().name}-{width}d" for name, source in sources.items()}

    def index(name: str, **options: Path) -> Step:
        subjects = tuple(map(str, sources.values()))
        step = Step("build-index", {**options, "feature_folder": output}, subjects, source=digest)
        return writing(step, home / f"{name}.h5")

    def way(target: str, splits: Mapping[str, Sequence[str]], name: str, direction: str = "") -> Data:
        file = _split_file(home, splits)
        labelled = index(name, split=file[0])
        return Data("features", home, title, target, labelled, index("all"), file, direction, stores)

    if len(sets) == 1:
        ((name, ids),) = sets.items()
        return [way(name, _in_turns(ids, folder), "split")]
    ways = []
    for source, target in (tuple(sets), tuple(sets)[::-1]):
        own = sets[source]
        train = [video for i, video in enumerate(own) if i % 4 != 3]
        splits = {"train": train, "val": own[3::4], "test": sets[target]}
        ways.append(way(target, splits, f"{source}-to-{target}", f"trained on {source}, tested on {target}"))
    return ways


def _generated(home: Path) -> Data:
    movies = home / f"movies-{_short(json.dumps(GENERATED))[:8]}"
    files = [movies / f"video{seed:02}.mp4" for seed in range(VIDEOS)]
    steps = [Step(MAKE_VIDEO, {**GENERATED, "seed": i}, (str(path),), path) for i, path in enumerate(files)]
    keyframes = Step("extract-keyframes", {}, (str(movies),), needs=tuple(steps))
    return _videos("generated", f"{VIDEOS} generated videos", home, keyframes, [path.stem for path in files])


def _own_videos(folder: Path, home: Path) -> Data:
    videos = find_videos([folder])
    keyframes = Step("extract-keyframes", {}, (str(folder),), source=_digest(folder, home.parent))
    data = _videos("videos", f"videos in {folder}", home, keyframes, video_ids(videos))
    if not all(map(has_sound, videos)):
        return data
    sound = Step("extract-sound", {"index": data.index.output}, (str(folder),), needs=(data.index,))
    return replace(data, sound=writing(sound, home / "sound"))


def _videos(kind: Kind, title: str, home: Path, keyframes: Step, names: Sequence[str]) -> Data:
    source = keyframes.subjects[0]
    keyframes, splits = writing(keyframes, home / "keyframes"), _split_file(home, _in_turns(names, Path(source)))
    options = {"labels": source, "split": splits[0]}
    index = writing(Step("build-index", options, (str(keyframes.output),), needs=(keyframes,)), home / "index.h5")
    return Data(kind, home, title, home.name, index, index, splits)


def _in_turns(names: Sequence[str], source: Path) -> dict[str, list[str]]:
    """Of every six videos three for training, one for validation and two for testing; of three, one each."""
    if len(names) < 3:
        raise BasslError(
            f"{source}: contains {count(len(names), 'video')}, but three are needed: to train, validate and test"
        )
    order = _SPLITS if len(names) >= len(_SPLITS) else ("train", "val", "test")
    return {
        split: [name for i, name in enumerate(names) if order[i % len(order)] == split]
        for split in dict.fromkeys(order)
    }


def _split_file(home: Path, splits: Mapping[str, Sequence[str]]) -> tuple[Path, bytes]:
    content = json.dumps(dict(splits), indent=1) + "\n"
    return home / f"split-{_short(content)[:8]}.json", content.encode()


def _short(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:20]


def _digest(folder: Path, work: Path) -> str:
    """Digest of the names, sizes and times of the files of a folder, without the files that tables write into it: the
    output folder, the parent of ``work``, may be the folder itself or in it. MovieNet has five million files, so only
    its upper folders are read."""
    folder, output = folder.resolve(), work.parent.resolve()
    written = [path for name in ("work", *TABLES) if folder in (path := output / name).parents]
    paths = [folder, *folder.glob("*"), *folder.glob("*/*")] if is_movienet(folder) else [*folder.rglob("*")]
    lines = []
    for path in sorted(path for path in paths if path.exists()):  # not links to missing files
        if path != folder and any(path.is_relative_to(own) or own.is_relative_to(path) for own in written):
            continue
        facts = path.stat()
        size, changed = (0, 0) if path.is_dir() else (facts.st_size, facts.st_mtime_ns)
        lines.append(f"{path.relative_to(folder)} {size} {changed}\n")
    return _short("".join(lines))
