"""Files that the program writes, by name: a function that writes version 1 or 2, and one that reads which it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.files import new_files
from pipelines.models.checkpoints import read_arrays, save_model
from pipelines.results.replacing import replace_result, result_version
from pipelines.stores.features import open_features, write_features
from pipelines.stores.keyframes import read_keyframes
from tests.outputs.exporting import scene_list
from tests.small_stores import put_store


@dataclass(frozen=True)
class Writer:
    file: str
    write: Callable[[Path, int], object]
    read: Callable[[Path], int]


def _write_scenes(path: Path, version: int) -> None:
    scenes = scene_list([30] * 40)
    replace(scenes, settings={"version": version}).save(path)


def _change_scenes(path: Path, version: int) -> None:
    scenes = scene_list([30] * 40)
    replace_result(path, replace(scenes, settings={"version": version}), result_version(path))


def _write_pieces(path: Path, version: int) -> None:
    names = dict.fromkeys((path.name, "other.bin"), str(version))
    with new_files(path.parent, path.parent, names, (), overwrite=True) as (_, partials, _):
        for partial in partials:
            partial.write_bytes(bytes([version]) * 20_000)


def _read_piece(path: Path) -> int:
    content = path.read_bytes()
    assert content == content[:1] * 20_000
    return content[0]


WRITERS = {
    "scenes.json": Writer("s.json", _write_scenes, lambda path: int(read_scene_list(path).settings["version"])),
    "changed scenes.json": Writer(
        "s.json", _change_scenes, lambda path: int(read_scene_list(path).settings["version"])
    ),
    "model": Writer(
        "model.safetensors",
        lambda path, version: save_model(path, {"w": np.full(5000, version, np.float32)}, "k", {"v": version}),
        lambda path: int(read_arrays(path, "k")[1]["v"]),
    ),
    "keyframe store": Writer(
        "video.h5",
        lambda path, version: put_store(path, shots=4 + version),
        lambda path: len(read_keyframes(path).frames) - 4,
    ),
    "feature store": Writer(
        "video.h5",
        lambda path, version: write_features(path.parent, "e", path.stem, np.full((200, 16), version, np.float32)),
        lambda path: int(open_features(path).features[0, 0]),
    ),
    "pieces of a video": Writer("piece.bin", _write_pieces, _read_piece),
}
