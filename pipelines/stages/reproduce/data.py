"""The data that a table is measured on: where it is, how it is split, and the options of the stages for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pipelines.datasets.movienet import is_movienet, read_movienet_splits, videos_with_keyframes
from pipelines.datasets.shot_features import read_shot_feature_folder, shot_feature_files
from pipelines.errors import BasslError, DatasetError, count
from pipelines.files import write_atomically
from pipelines.stages.reproduce.settings import NAMES, StageOptions
from pipelines.stages.reproduce.steps import Step
from pipelines.video.inputs import find_videos, video_ids
from pipelines.video.sound import has_sound

Kind = Literal["movienet", "features", "videos", "generated"]

MOVIENET = Path("data/movienet")
PLACES365 = Path("data/places365/model.safetensors")
OTHER_SETS: Mapping[str, Path] = {"BBC": Path("data/bbc/index.h5"), "OVSD": Path("data/ovsd/index.h5")}
"""Indices of the sets that a model from MovieNet is tested on (data/README.md)."""
FRAME_RATE = 25.0
"""Frames a second of feature files, which do not say."""
LONG = 20
"""Epochs beyond which pre-training takes `StageOptions.long_pretrain`."""


def _of_all(options: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """For each of the paper's networks; the defaults of the relational one suit sets of this size."""
    return dict.fromkeys(("transformer", "mlp", "ms-lstm"), options)


_SMALL = {"width": 64, "heads": 4}
OPTIONS: Mapping[Kind, StageOptions] = {
    # All encoders see the centre of a keyframe, as in the paper's release.
    "movienet": StageOptions(baselines={"lgss": "lgss-movienet"}, preparation="centre"),
    # Two or three dozen videos: with the paper's batch sizes and rates the epochs end before the loss falls. Batch
    # sizes and rates were chosen by the losses of pre-training.
    "features": StageOptions(
        pretrain={"batch": 16, "base_rate": 24.0, **_SMALL},
        # Forty epochs spend thousands of steps near the peak rate, and at the rate of ten epochs the loss rises again.
        long_pretrain={"base_rate": 6.0},
        finetune=_of_all({"epochs": 10, "batch": 128, "rate": 5e-4}),
        network={"transformer": _SMALL, "mlp": {"width": 128}, "ms-lstm": {"width": 32, "rate": 1e-3}},
    ),
    "videos": StageOptions(
        pretrain={"encoder": "resnet18", "size": 112, "decoded_size": 128, "batch": 64, "base_rate": 3.0, **_SMALL},
        finetune=_of_all({"epochs": 10, "batch": 128, "rate": 5e-4}),
        network={"transformer": _SMALL, "mlp": {"width": 128}, "ms-lstm": {"width": 32}},
    ),
    "generated": StageOptions(
        pretrain={
            "encoder": "timm:test_resnet",
            "size": 32,
            "kernel_size": 3,
            "decoded_size": 36,
            "workers": 1,
            "batch": 32,
            "base_rate": 6.0,
            "neighbours": 4,
            **_SMALL,
        },
        finetune=_of_all({"epochs": 20, "batch": 32, "rate": 3e-3}),
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
class EvaluationProtocol:
    """One way to train and test on the data; each gives a table."""

    name: str  # of its folder
    title: str  # in words; empty if there is only one protocol
    tested_on: str  # name of the data set
    index: Step  # the step that builds its index


@dataclass(frozen=True)
class Data:
    """The data of a table."""

    kind: Kind
    name: str  # of its folder
    title: str  # for the heading of a table
    unlabelled: Step  # step that builds the index for pre-training: all videos, whatever their split
    protocols: tuple[EvaluationProtocol, ...]  # at least one
    features: Mapping[str, Path]  # the store of each data set, for data that is features
    extra: Step | None  # step that makes a store of sound features, if all videos have sound
    options: StageOptions
    splits: Mapping[Path, bytes] = field(default_factory=dict)  # files that assign videos to splits, and their content
    comparable: bool = False  # whether the paper's numbers were measured on it

    @property
    def home(self) -> Path:
        """Folder of everything computed from it."""
        assert self.unlabelled.output is not None
        return self.unlabelled.output.parent

    def write_splits(self) -> None:
        """Write the files of splits, which steps read. Raises BasslError where they cannot be written."""
        for path, content in self.splits.items():
            if not path.exists() or path.read_bytes() != content:
                write_atomically(path, content)


def find_data(given: Path | None, work: Path, options: StageOptions | None = None) -> Data:
    """The given data, or else MovieNet if it exists, or else generated videos, with everything computed from it in
    ``work``. ``given`` is MovieNet's folder, a folder of ``.npz`` features (two folders of them are two sets), or of
    videos with their labels beside them; ``options`` replace those of `OPTIONS`. Raises BasslError for a folder that is
    none of these, or has too few videos."""
    data = _find_data(given, work)
    return data if options is None else replace(data, options=options)


def _find_data(given: Path | None, work: Path) -> Data:
    if given is None and not is_movienet(MOVIENET):
        return _generate_videos(work / "generated")
    folder = given or MOVIENET
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder; name one with videos and labels, features, or MovieNet")
    if is_movienet(folder):
        return _movienet(folder, work / "movienet")
    name = folder.resolve().name
    if next(shot_feature_files(folder), None) is not None:
        return _features(folder, work / name)
    return _videos(folder, work / name)


def _movienet(folder: Path, home: Path) -> Data:
    data = movienet_data(folder, home, _digest(folder, home))
    labelled, there = read_movienet_splits(folder).keys(), videos_with_keyframes(folder)
    if labelled and labelled <= there:
        return data
    title = f"MovieNet with keyframes of {len(labelled & there)} of {len(labelled)} labelled videos"
    return replace(data, title=title, comparable=False)


def movienet_data(folder: Path, home: Path, digest: str = "") -> Data:
    """MovieNet as it is when it is whole; of the folder nothing is read."""
    options = {"output": home / "index.h5", "only_complete": True}
    index = Step("build-index", options, (str(folder),), home / "index.h5", (), digest)
    title = "MovieNet, test split of MovieNet-SSeg"
    protocol = EvaluationProtocol("movienet", "", "MovieNet-SSeg", index)
    return Data("movienet", home.name, title, index, (protocol,), {}, None, OPTIONS["movienet"], comparable=True)


def _features(folder: Path, home: Path) -> Data:
    videos = read_shot_feature_folder(folder)
    sets: dict[str, list[str]] = {}
    for video in videos:
        sets.setdefault(video.video_id.split("/")[0], []).append(video.video_id)
    if len(sets) > 2:
        raise DatasetError(f"{folder}: holds {len(sets)} sets of features; give one, or two to test across")
    sources = tuple(str(folder / name) if (folder / name).is_dir() else str(folder) for name in sets)
    width = videos[0].features.shape[1]
    stores = {
        name: home / "features" / f"{Path(source).resolve().name}-{width}d.h5"
        for name, source in zip(sets, sources, strict=True)
    }
    digest = _digest(folder, home)

    files: dict[Path, bytes] = {}

    def index(name: str, splits: Mapping[str, Sequence[str]] | None = None) -> Step:
        options: dict[str, Any] = {"output": home / f"{name}.h5", "feature_folder": home / "features"}
        content = b""
        if splits is not None:
            options["split"] = home / f"{name}.json"
            content = files[options["split"]] = _listed(splits)
        return Step("build-index", options, sources, home / f"{name}.h5", (), f"{digest} {_short(content)}")

    counts = " and ".join(f"{name} ({count(len(ids), 'video')})" for name, ids in sets.items())
    if len(sets) == 1:
        ((name, ids),) = sets.items()
        _check_enough(folder, ids, "video")
        protocols = [EvaluationProtocol(name, "", name, index("split", _by_turns(ids)))]
    else:
        protocols = []
        for source, target in (tuple(sets), tuple(sets)[::-1]):
            own = sets[source]
            splits = {
                "train": [video for i, video in enumerate(own) if i % 4 != 3],
                "val": own[3::4],
                "test": sets[target],
            }
            name = f"{source}-to-{target}"
            protocols.append(
                EvaluationProtocol(name, f"trained on {source}, tested on {target}", target, index(name, splits))
            )
    title = f"features of {counts} in {folder}"
    return Data("features", home.name, title, index("all"), tuple(protocols), stores, None, OPTIONS["features"], files)


def _videos(folder: Path, home: Path) -> Data:
    videos = find_videos([folder])
    _check_enough(folder, videos, "video")
    digest, sound = _digest(folder, home), all(map(has_sound, videos))
    return _of_videos("videos", f"videos in {folder}", folder, home, video_ids(videos), digest=digest, sound=sound)


def _check_enough(folder: Path, videos: Sequence[object], name: str) -> None:
    if len(videos) < 3:
        raise BasslError(
            f"{folder}: holds {count(len(videos), name)}, and three are needed, to train, validate and test"
        )


def _generate_videos(home: Path) -> Data:
    movies = home / "movies"
    made = tuple(
        Step("make-video", {**GENERATED, "seed": seed}, (str(path),), path)
        for seed in range(VIDEOS)
        for path in [movies / f"video{seed:02}.mp4"]
    )
    names = [Path(step.subjects[0]).stem for step in made]
    return _of_videos("generated", f"{VIDEOS} generated videos", movies, home, names, made=made)


def _of_videos(
    kind: Kind,
    title: str,
    folder: Path,
    home: Path,
    names: Sequence[str],
    *,
    made: tuple[Step, ...] = (),
    digest: str = "",
    sound: bool = False,
) -> Data:
    keyframes = Step(
        "extract-keyframes", {"output": home / "keyframes"}, (str(folder),), home / "keyframes", made, digest
    )
    split, listed = home / "split.json", _listed(_by_turns(names))
    options = {"output": home / "index.h5", "labels": folder, "split": split}
    subjects = (str(home / "keyframes"),)
    index = Step("build-index", options, subjects, home / "index.h5", (keyframes,), _short(listed))
    store = home / "features" / "sound.h5"
    extra = Step("extract-sound", {"index": home / "index.h5", "output": store}, (str(folder),), store, (index,))
    protocols = (EvaluationProtocol(home.name, "", home.name, index),)
    return Data(kind, home.name, title, index, protocols, {}, extra if sound else None, OPTIONS[kind], {split: listed})


def _by_turns(names: Sequence[str]) -> dict[str, list[str]]:
    """Of every six videos three for training, one for validation and two for testing; of three, one each."""
    order = _SPLITS if len(names) >= len(_SPLITS) else ("train", "val", "test")
    return {
        split: [name for i, name in enumerate(names) if order[i % len(order)] == split]
        for split in dict.fromkeys(order)
    }


def _listed(splits: Mapping[str, Sequence[str]]) -> bytes:
    return (json.dumps(dict(splits), indent=1) + "\n").encode()


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:20]


def _digest(folder: Path, home: Path) -> str:
    """Digest of the names, sizes and times of the files of a folder, without those that tables write into it: `home` is
    ``OUTPUT/work/NAME``, and OUTPUT may be the folder itself or below it. For MovieNet, whose five million files would
    take minutes, only the upper folders are read."""
    root, output = folder.resolve(), home.parents[1].resolve()
    written = [path for name in ("work", *NAMES) if root in (path := output / name).parents]
    paths = [folder, *folder.glob("*"), *folder.glob("*/*")] if is_movienet(folder) else sorted(folder.rglob("*"))
    digest = hashlib.sha256()
    for path in sorted(path for path in paths if path.exists()):  # links may lead nowhere
        place = root / path.relative_to(folder)
        if place != root and any(place.is_relative_to(one) or one.is_relative_to(place) for one in written):
            continue
        facts = path.stat()
        size = 0 if path.is_dir() else facts.st_size
        digest.update(f"{path.relative_to(folder)} {size} {0 if path.is_dir() else facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:20]
