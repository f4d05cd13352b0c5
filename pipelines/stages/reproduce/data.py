"""What data there is to reproduce on, how it is split, and the settings of the stages that depend on it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pipelines.datasets.synthetic import SyntheticFilmSettings
from pipelines.errors import BasslError, DatasetError
from pipelines.files import write_atomically
from pipelines.stages.reproduce.steps import Stage

Kind = Literal["movienet", "features", "films", "generated"]

MOVIENET = Path("data/movienet")
PLACES365 = Path("data/places365/model.safetensors")
OTHER_SETS: Mapping[str, Path] = {"BBC": Path("data/bbc/index.h5"), "OVSD": Path("data/ovsd/index.h5")}
"""Indices of the sets that a model from MovieNet is tested on (data/README.md)."""
FRAME_RATE = 25.0
"""Of feature files, which do not say."""
LONG = 20
"""Epochs."""


@dataclass(frozen=True)
class Recipe:
    """Options of the stages on one kind of data, where they are not the paper's.

    Attributes:
        pretrain: of `bassl pretrain`.
        long_pretrain: the same, further ones for a row that has more than `LONG` of the paper's epochs.
        finetune: of `bassl finetune`, by `--crn`.
        network: the same, further ones for a network that begins anew.
        epochs: of pre-training where the paper has ten; a row with another number has as many times more.
    """

    pretrain: Mapping[str, Any] = field(default_factory=dict)
    long_pretrain: Mapping[str, Any] = field(default_factory=dict)
    finetune: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    network: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    epochs: int = 10


def _of_all(options: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """For each of the paper's networks; the relational one has a recipe of its own, made for sets of this size."""
    return dict.fromkeys(("transformer", "mlp", "ms-lstm"), options)


_SMALL = {"width": 64, "heads": 4}
RECIPES: Mapping[Kind, Recipe] = {
    "movienet": Recipe(),
    # Two or three dozen films: with the paper's batches and rates nothing would have begun to learn when the epochs are
    # over. Batches and rates were chosen by the losses of pre-training.
    "features": Recipe(
        pretrain={"batch": 16, "base_rate": 24.0, **_SMALL},
        # Forty epochs spend thousands of steps near the greatest rate, and at that one lose what the first learned.
        long_pretrain={"base_rate": 6.0},
        finetune=_of_all({"epochs": 10, "batch": 128, "rate": 5e-4}),
        network={"transformer": _SMALL, "mlp": {"width": 128}, "ms-lstm": {"width": 32, "rate": 1e-3}},
    ),
    "films": Recipe(
        pretrain={"encoder": "resnet18", "size": 112, "decoded_size": 128, "batch": 64, "base_rate": 3.0, **_SMALL},
        finetune=_of_all({"epochs": 10, "batch": 128, "rate": 5e-4}),
        network={"transformer": _SMALL, "mlp": {"width": 128}, "ms-lstm": {"width": 32}},
    ),
    "generated": Recipe(
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
            # With fewer epochs some seeds never leave ln 2: the LSTM's input is of unit length, and hardly varies.
            "ms-lstm": {"width": 32, "epochs": 60},
        },
    ),
}

FILMS = 12
GENERATED = SyntheticFilmSettings(scenes=14, shots_per_scene=(4, 9), shot_seconds=(0.4, 0.8), width=160, height=90)
"""Films of a minute: long enough to have scenes to tell apart, small enough for two cores."""
_SPLITS = ("train", "train", "train", "val", "test", "test")


@dataclass(frozen=True)
class Way:
    """One way of training and testing on the data: one table.

    Attributes:
        name: of its folder.
        title: in words; empty where there is one way only.
        tested_on: name of the set, where there are two.
        index: the stage that makes its index.
    """

    name: str
    title: str
    tested_on: str
    index: Stage


@dataclass(frozen=True)
class Data:
    """What there is.

    Attributes:
        kind: of data.
        name: of its folder.
        title: for the heading of a table.
        unlabelled: stage of the index that pre-training learns from: all videos, whatever their split.
        ways: at least one.
        features: stores, for data that is features.
        extra: stage that makes a store of sound, where all films have some.
        recipe: of the stages.
        splits: files that say which video is for what, and what stands in them.
    """

    kind: Kind
    name: str
    title: str
    unlabelled: Stage
    ways: tuple[Way, ...]
    features: tuple[Path, ...]
    extra: Stage | None
    recipe: Recipe
    splits: Mapping[Path, bytes] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """Folder of all that is made of it."""
        assert self.unlabelled.output is not None
        return self.unlabelled.output.parent

    def write_splits(self) -> None:
        """Write the files that the stages of the ways read.

        Raises:
            BasslError: where they cannot be written.
        """
        for path, content in self.splits.items():
            if not path.exists() or path.read_bytes() != content:
                write_atomically(path, content)

    @property
    def comparable(self) -> bool:
        """Whether the paper's numbers were measured on it."""
        return self.kind == "movienet"


def find_data(given: Path | None, work: Path, recipe: Recipe | None = None) -> Data:
    """The data that was named, or MovieNet where it is, or generated films.

    Args:
        given: MovieNet's folder, a folder of ``.npz`` features (two folders of them are two sets), or of films with
            their labels beside them.
        work: folder for what is made of it.
        recipe: in the place of that of `RECIPES`.

    Raises:
        BasslError: one line, for a folder that is none of these, or has too few films.
    """
    from pipelines.datasets.movienet import is_movienet

    if given is None and not is_movienet(MOVIENET):
        return _generated(work / "generated", recipe)
    folder = given or MOVIENET
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder; name one with films and labels, features, or MovieNet")
    if is_movienet(folder):
        return _movienet(folder, work / "movienet", recipe)
    name = folder.resolve().name
    if next(folder.rglob("*.npz"), None) is not None:
        return _features(folder, work / name, recipe)
    return _films(folder, work / name, recipe)


def _movienet(folder: Path, home: Path, recipe: Recipe | None) -> Data:
    index = Stage("build-index", {"output": home / "index.h5"}, (str(folder),), home / "index.h5", (), _digest(folder))
    title = "MovieNet, test split of MovieNet-SSeg"
    way = Way("movienet", "", "MovieNet-SSeg", index)
    return Data("movienet", home.name, title, index, (way,), (), None, recipe or RECIPES["movienet"])


def _features(folder: Path, home: Path, recipe: Recipe | None) -> Data:
    from pipelines.datasets.shot_features import read_shot_feature_folder

    videos = read_shot_feature_folder(folder)
    sets: dict[str, list[str]] = {}
    for video in videos:
        sets.setdefault(video.video_id.split("/")[0], []).append(video.video_id)
    if len(sets) > 2:
        raise DatasetError(f"{folder}: holds {len(sets)} sets of features; give one, or two to test across")
    sources = tuple(str(folder / name) if (folder / name).is_dir() else str(folder) for name in sets)
    width = videos[0].features.shape[1]
    stores = tuple(home / "features" / f"{Path(source).resolve().name}-{width}d.h5" for source in sources)
    digest = _digest(folder)

    files: dict[Path, bytes] = {}

    def index(name: str, splits: Mapping[str, Sequence[str]] | None = None) -> Stage:
        options: dict[str, Any] = {"output": home / f"{name}.h5", "features": home / "features"}
        content = b""
        if splits is not None:
            options["split"] = home / f"{name}.json"
            content = files[options["split"]] = _listed(splits)
        return Stage("build-index", options, sources, home / f"{name}.h5", (), f"{digest} {_short(content)}")

    counts = " and ".join(f"{name} ({len(ids)} videos)" for name, ids in sets.items())
    if len(sets) == 1:
        ((name, ids),) = sets.items()
        ways = [Way(name, "", name, index("split", _by_turns(ids)))]
    else:
        ways = []
        for source, target in (tuple(sets), tuple(sets)[::-1]):
            own = sets[source]
            splits = {
                "train": [video for i, video in enumerate(own) if i % 4 != 3],
                "val": own[3::4],
                "test": sets[target],
            }
            name = f"{source}-to-{target}"
            ways.append(Way(name, f"trained on {source}, tested on {target}", target, index(name, splits)))
    title = f"features of {counts} in {folder}"
    recipe = recipe or RECIPES["features"]
    return Data("features", home.name, title, index("all"), tuple(ways), stores, None, recipe, files)


def _films(folder: Path, home: Path, recipe: Recipe | None) -> Data:
    from pipelines.video.films import find_films, video_ids
    from pipelines.video.sound import has_sound

    films = find_films([folder])
    if len(films) < 3:
        raise BasslError(
            f"{folder}: holds {len(films)} films; three are the least: to learn from, to choose on, to test"
        )
    data = _of_films("films", f"films in {folder}", folder, home, video_ids(films), (), _digest(folder), recipe)
    return data if all(has_sound(film) for film in films) else replace(data, extra=None)


def _generated(home: Path, recipe: Recipe | None) -> Data:
    own = {name: value for name, value in vars(GENERATED).items() if value != getattr(SyntheticFilmSettings(), name)}
    options = {name: list(value) if isinstance(value, tuple) else value for name, value in own.items()}
    movies = home / "movies"
    stages = tuple(
        Stage("make-film", {**options, "seed": seed}, (str(path),), path)
        for seed in range(FILMS)
        for path in [movies / f"film{seed:02}.mp4"]
    )
    names = [Path(stage.subjects[0]).stem for stage in stages]
    data = _of_films("generated", f"{FILMS} generated films", movies, home, names, stages, "", recipe)
    return replace(data, extra=None)  # they are silent


def _of_films(
    kind: Kind,
    title: str,
    folder: Path,
    home: Path,
    names: Sequence[str],
    made: tuple[Stage, ...],
    digest: str,
    recipe: Recipe | None,
) -> Data:
    keyframes = Stage(
        "extract-keyframes", {"output": home / "keyframes"}, (str(folder),), home / "keyframes", made, digest
    )
    split, listed = home / "split.json", _listed(_by_turns(names))
    options = {"output": home / "index.h5", "labels": folder, "split": split}
    subjects = (str(home / "keyframes"),)
    index = Stage("build-index", options, subjects, home / "index.h5", (keyframes,), _short(listed))
    sound = home / "features" / "sound.h5"
    extra = Stage("extract-sound", {"index": home / "index.h5", "output": sound}, (str(folder),), sound, (index,))
    ways = (Way(home.name, "", home.name, index),)
    return Data(kind, home.name, title, index, ways, (), extra, recipe or RECIPES[kind], {split: listed})


def _by_turns(names: Sequence[str]) -> dict[str, list[str]]:
    """Of six videos three to learn from, one to choose on and two to test on; of three, one each."""
    order = _SPLITS if len(names) >= len(_SPLITS) else ("train", "val", "test")
    return {
        split: [name for i, name in enumerate(names) if order[i % len(order)] == split]
        for split in dict.fromkeys(order)
    }


def _listed(splits: Mapping[str, Sequence[str]]) -> bytes:
    return (json.dumps(dict(splits), indent=1) + "\n").encode()


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:20]


def _digest(folder: Path) -> str:
    """Of the names, sizes and times of the files of a folder: it changes when one of them does.

    Of MovieNet, whose five million files would take minutes, of the folders that hold them.
    """
    from pipelines.datasets.movienet import is_movienet

    paths = [folder, *folder.glob("*"), *folder.glob("*/*")] if is_movienet(folder) else sorted(folder.rglob("*"))
    digest = hashlib.sha256()
    for path in sorted(paths):
        facts = path.stat()
        size = 0 if path.is_dir() else facts.st_size
        digest.update(f"{path.relative_to(folder)} {size} {0 if path.is_dir() else facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:20]
