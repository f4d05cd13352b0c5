"""Small things to score: an index with features, models and runs, lists of scenes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from pipelines.models.bassl import BasslSettings, BasslWeights, save_bassl_model
from pipelines.models.boundary import BoundaryModel, save_boundary_model
from pipelines.models.networks import CRNSettings
from pipelines.models.networks.torch_networks import TransformerBoundary
from pipelines.scenes import SceneData, Shot, VideoFacts, group_shots
from pipelines.stages.build_index import build_index

WIDTH = 8
SHAPE = CRNSettings(neighbors=2, input_width=WIDTH, width=8, layers=1, heads=2, hidden=8)


def put_index(folder: Path, videos: int = 5, split: tuple[float, ...] | None = (0.4, 0.6)) -> Path:
    """An index of videos of 30 shots, their features noise but for a step at each scene end; its store in
    `features`."""
    rng = np.random.default_rng(0)
    (folder / "npz").mkdir(parents=True)
    for i in range(videos):
        scene_end = (rng.random(30) < 0.2).astype(np.uint8)
        scene_end[[4, -1]] = 1, 0
        scene = np.cumsum(scene_end) - scene_end
        features = rng.normal(size=(int(scene.max()) + 1, WIDTH))[scene] + 0.3 * rng.normal(size=(30, WIDTH))
        cuts = np.append(0, np.cumsum(rng.integers(20, 200, 30)))
        np.savez(
            folder / "npz" / f"{i:02}.npz",
            features=features.astype(np.float32),
            shots=np.stack([cuts[:-1], cuts[1:]], axis=1),
            scene_end=scene_end,
        )
    index = folder / "index.h5"
    build_index([folder / "npz"], output=index, feature_folder=folder / "features", split=split)
    return index


def model(seed: int = 0, encoder: str | None = f"npz-{WIDTH}d") -> BoundaryModel:
    """A model that is not trained."""
    torch.manual_seed(seed)
    return BoundaryModel(crn="transformer", network=TransformerBoundary(SHAPE), shape=SHAPE, encoder=encoder)


def put_run(folder: Path, seeds: Sequence[int] = (0,)) -> Path:
    """A fine-tuned run; of several seeds, the first is the one that it chose."""
    folder.mkdir(parents=True)
    save_boundary_model(folder / "model.safetensors", model(seeds[0]))
    for seed in seeds:
        save_boundary_model(folder / f"seed-{seed}.safetensors", model(seed))
    return folder


def put_pretrained(path: Path, head: str = "head_pp") -> Path:
    """A model that was pre-trained on features, with one head."""
    network = model().network
    assert isinstance(network, TransformerBoundary)
    heads = {f"{head}.{name}": tensor for name, tensor in network.head_sbd.state_dict().items()}
    save_bassl_model(path, BasslWeights(BasslSettings(f"npz-{WIDTH}d", SHAPE), {}, network.crn.state_dict(), heads))
    return path


def scene_list(
    cuts: Sequence[float], ends: Sequence[int], scores: Sequence[float], name: str = "video.mp4"
) -> SceneData:
    """A result of `bassl predict`: shots between cuts (in seconds, at 25 frames per second), and where scenes end."""
    shots = tuple(
        Shot(i, round(25 * start), round(25 * end), float(start), float(end), score)
        for i, (start, end, score) in enumerate(zip(cuts[:-1], cuts[1:], scores, strict=True))
    )
    facts = VideoFacts(name, 64, 36, float(cuts[-1]), round(25 * cuts[-1]), 25.0)
    return SceneData(facts, {}, shots, group_shots(shots, [*ends, len(shots) - 1]))


def put_scenes(path: Path, ends: Sequence[int] = (1, 3), scores: Sequence[float] = (0.1, 0.9, 0.2, 0.6, 0.3)) -> Path:
    """A scenes.json of fifty seconds in five shots of ten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scene_list((0, 10, 20, 30, 40, 50), ends, scores, f"{path.stem.removesuffix('.scenes')}.mp4").save(path)
    return path


def put_csv(path: Path | str, *cuts: float) -> Path:
    """Scenes between cuts, in seconds."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("start,end\n" + "".join(f"{a},{b}\n" for a, b in pairwise(cuts)))
    return path


def plain(text: str) -> object:
    """JSON as it must be: no NaN, no infinity."""
    return json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
