"""How well places that return are found: settings of shots in generated videos, whose sets are known.

    python benchmarks/settings.py

25 videos by `pipelines.datasets.synthetic` of 24 scenes each, seen by their true shots (three keyframes, without
encoding a video). About a third of the scenes are in a set of an earlier scene, with other people and another light.
Agreement is the adjusted Rand index over shots, 0 for chance and 1 for the sets themselves; beside it of two scenes
with one letter the share that is in one set (precision), and of two scenes in one set the share with one letter
(recall). Intervals are 95 %, by bootstrap over videos. Takes about five minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from measure import command_line, save
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from pipelines.datasets.synthetic import SyntheticVideoSettings, plan_video, render_keyframes
from pipelines.models.encoder_loading import load_encoder
from pipelines.models.encoders.options import DEFAULT_ENCODER
from pipelines.models.encoders.shot_encoder import KEYFRAMES, encode_groups
from pipelines.models.opening import open_model
from pipelines.models.scenes.places import shot_settings
from pipelines.outputs.tables import TextTable, markdown

FIRST_SEED, VIDEOS, SCENES = 200, 25, 24
RESAMPLES = 10_000
SYSTEMS = {
    "settings, predicted scenes": (True, False),
    "each scene its own, predicted scenes": (False, False),
    "settings, true scenes": (True, True),
    "each scene its own, true scenes": (False, True),
}
"""By name: whether places are found, and whether scene ends are the true ones."""


def scene_pairs(numbers: Sequence[int], sets: Sequence[int]) -> tuple[int, int, int]:
    """Pairs of scenes with one number, in one set, and both."""
    pairs = [(numbers[a] == numbers[b], sets[a] == sets[b]) for a, b in combinations(range(len(sets)), 2)]
    return sum(one for one, _ in pairs), sum(other for _, other in pairs), sum(one and other for one, other in pairs)


def interval(values: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> dict[str, float]:
    """A mean over videos, or a ratio of sums, with its interval."""
    weights = np.ones_like(values) if weights is None else weights
    draws = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(values[draws].sum(axis=1) / weights[draws].sum(axis=1), (0.025, 0.975))
    return {"mean": values.sum() / weights.sum(), "low": float(low), "high": float(high)}


def main() -> None:
    command_line(__doc__).parse_args()
    encoder, model = load_encoder(DEFAULT_ENCODER, "cpu", KEYFRAMES), open_model(None).boundary_model()
    agreement: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    pairs: list[tuple[int, int, int]] = []
    for seed in range(FIRST_SEED, FIRST_SEED + VIDEOS):
        video = plan_video(SyntheticVideoSettings(seed=seed, scenes=SCENES, width=320, height=180))
        keyframes = render_keyframes(video)
        encoded = list(encode_groups(encoder, encoder.groups(keyframes), iter, 1))
        features, color = (np.concatenate([group[k] for group in encoded]) for k in (1, 2))
        seconds = np.diff(np.array(video.shot_ranges), axis=1)[:, 0] / float(video.frame_rate)
        scene = np.array(video.scene_of_shot)
        sets, is_end = np.array(video.sets)[scene], np.append(np.diff(scene) > 0, False).astype(float)
        scores = model.score(features, seconds, color)
        for name, (finds, is_true) in SYSTEMS.items():
            ends = is_end if is_true else scores
            own = np.concatenate([[0], np.cumsum(ends[:-1] >= 0.5)])
            numbers = shot_settings(features, color, ends) if finds else own
            agreement[name].append(adjusted_rand_score(sets, numbers))
            if finds and is_true:
                firsts = np.unique(scene, return_index=True)[1]
                pairs.append(scene_pairs(np.array(numbers)[firsts].tolist(), video.sets))
        print(f"seed {seed}: {agreement['settings, predicted scenes'][-1]:.3f}", flush=True)
    lettered, same, both = np.array(pairs, dtype=float).T
    own = "each scene its own, predicted scenes"
    results = {name: interval(np.array(values)) for name, values in agreement.items()}
    results["gain, predicted scenes"] = interval(np.subtract(agreement["settings, predicted scenes"], agreement[own]))
    results |= {"precision, true scenes": interval(both, lettered), "recall, true scenes": interval(both, same)}
    rows = [(name, f"{of['mean']:.2f} [{of['low']:.2f}, {of['high']:.2f}]") for name, of in results.items()]
    print(markdown(TextTable(("", "value"), tuple(rows))))
    save("settings", results)


if __name__ == "__main__":
    main()
