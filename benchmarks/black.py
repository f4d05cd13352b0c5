"""How much black inside a video should raise the score of its cut: AP and F1 of generated videos, by the amount.

    python benchmarks/black.py

Videos with other seeds than in ``benchmarks/scenes.py``, with 0.6 to 2 s of black put between two scenes with a
probability of a half, and between two shots of a scene of a fiftieth: Big Buck Bunny has none between its 130 shots.
The amount depends on this: with a tenth, so that most black is inside scenes, every raise makes AP and F1 worse. Takes
some minutes.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from measure import RESULTS, save

import bassl
from pipelines.datasets.annotations import VideoAnnotation
from pipelines.datasets.scenes_json import read_scene_list, read_scenes_json
from pipelines.datasets.synthetic import SyntheticVideoSettings, truth_path, write_video
from pipelines.evaluation.alignment import align
from pipelines.evaluation.bootstrap import measure
from pipelines.models.scenes import scene_ends
from pipelines.models.scenes.scene_ends import raise_at_black, with_grouping
from pipelines.outputs.tables import TextTable, markdown, percent
from pipelines.scenes import SceneData

FIRST_SEED, VIDEOS = 3000, 6
BETWEEN_SCENES, BETWEEN_SHOTS = 0.5, 0.02
AMOUNTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
TOLERANCE = 1.0  # seconds


def with_black(path: Path, seed: int) -> VideoAnnotation:
    """Write a video with black, and return its scenes; the end of a scene may be anywhere in the black after it."""
    plain = path.with_suffix(".plain.mp4")
    settings = SyntheticVideoSettings(seed=seed, scenes=8, width=320, height=180, dissolves=3)
    if not truth_path(plain).exists():
        write_video(plain, settings)
    truth = read_scene_list(truth_path(plain))
    rng = np.random.default_rng(seed)
    ends = {scene.end_frame for scene in truth.scenes}
    lengths = {
        shot.end_frame: int(settings.frame_rate * rng.uniform(0.6, 2))
        for shot in truth.shots[:-1]
        if rng.random() < (BETWEEN_SCENES if shot.end_frame in ends else BETWEEN_SHOTS)
    }
    if not path.exists():
        with av.open(str(plain)) as source, av.open(str(path), "w") as output:
            stream = output.add_stream("libx264", Fraction(settings.frame_rate).limit_denominator(1001))
            stream.width, stream.height, stream.pix_fmt = settings.width, settings.height, "yuv420p"
            black = np.zeros((settings.height, settings.width, 3), np.uint8)
            count = 0
            for index, frame in enumerate(source.decode(video=0)):
                images = [black] * lengths.get(index, 0) + [frame.to_ndarray(format="rgb24")]
                for image in images:
                    shown = av.VideoFrame.from_ndarray(image, "rgb24")
                    shown.pts, shown.time_base = count, 1 / Fraction(settings.frame_rate)
                    output.mux(stream.encode(shown))
                    count += 1
            output.mux(stream.encode(None))
    before = lambda frame: sum(length for place, length in lengths.items() if place <= frame)  # noqa: E731
    rows = [
        (scene.start_frame + before(scene.start_frame), scene.end_frame + before(scene.end_frame - 1))
        for scene in truth.scenes
    ]
    return VideoAnnotation(path.stem, path, scenes_seconds=np.array(rows) / settings.frame_rate)


def variant(scenes: SceneData, amount: float, folder: Path) -> VideoAnnotation:
    path = folder / "variant.scenes.json"
    raised = raise_at_black(scenes.shots, scenes.segments, amount)
    with_grouping(replace(scenes, shots=raised), {"threshold": 0.5, **GROUPING}).save(path)
    return read_scenes_json(path)


GROUPING = {"min_scene": 0.0, "max_scene": 0.0, "drop_short": False, "scenes": None}


def main() -> None:
    folder = RESULTS / "black"
    folder.mkdir(parents=True, exist_ok=True)
    scene_ends.raise_at_black = lambda shots, segments: shots  # scores as the model gives them
    model = bassl.load_model()
    scenes, truths = [], []
    for seed in range(FIRST_SEED, FIRST_SEED + VIDEOS):
        path = folder / f"black-{seed}.mp4"
        truths.append(with_black(path, seed))
        scenes.append(model.predict(path, thumbnails=False))
    rows, figures = [], {}
    for amount in AMOUNTS:
        pairs = zip(scenes, truths, strict=True)
        scored = [align(variant(one, amount, folder), truth, TOLERANCE).video for one, truth in pairs]
        measures = measure(scored)
        figures[str(amount)] = {name: measures[name].pooled for name in ("ap", "f1")}
        rows.append((f"{amount:g}", *(percent(measures[name].pooled) for name in ("ap", "f1"))))
    print(markdown(TextTable(("log odds", "AP", "F1"), tuple(rows))))
    save("black", figures)


if __name__ == "__main__":
    main()
