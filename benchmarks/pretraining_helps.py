"""The effect of pre-training from pixels: the same fine-tuning with and without it.

    python benchmarks/pretraining_helps.py

Encoder and CRN are pre-trained on the keyframes of generated videos. Fine-tuning keeps the encoder, and is tested on
videos that were pre-trained on without labels; once for each preparation of keyframes. "No pre-training" differs only
in the initial weights of fine-tuning. (`bassl reproduce` compares the same on features.)

Every stage is the public function of its command. The settings of pre-training were chosen by its own losses. Figures
are AP, pooled over the shots of the tested videos, as mean and standard deviation over seeds.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure import RESULTS, command_line, save

from pipelines.datasets.synthetic import SyntheticVideoSettings, write_video
from pipelines.options import with_options
from pipelines.outputs import tables
from pipelines.outputs.tables import TextTable, percent_with_deviation
from pipelines.pretext.settings import AugmentationSettings
from pipelines.progress import TrainingProgress
from pipelines.stages.build_index import build_index
from pipelines.stages.extract_keyframes import extract_keyframes
from pipelines.stages.finetune import FinetuneSettings, finetune
from pipelines.stages.pretrain import PretrainSettings, pretrain
from pipelines.stages.score import SeedSpread
from pipelines.stages.settings import IndexSettings

Rows = list[dict[str, Any]]

VIDEO = SyntheticVideoSettings(scenes=14, shots_per_scene=(4, 9), shot_seconds=(0.4, 0.8), width=160, height=90)
ON_VIDEOS = with_options(
    PretrainSettings,
    epochs=20,
    batch=32,
    base_rate=6.0,
    neighbors=4,
    width=64,
    heads=4,
    encoder="timm:test_resnet",
    augmentation=AugmentationSettings(size=32, kernel_size=3),
    device="cpu",
    workers=1,
    validate_epochs=0,
    log_steps=1,
)
AFTER_VIDEOS = with_options(
    FinetuneSettings,
    epochs=20,
    batch=32,
    rate=3e-3,
    width=64,
    heads=4,
    neighbors=4,
    seeds=1,
    device="cpu",
    workers=1,
)


def make_videos(folder: Path, videos: int, video: SyntheticVideoSettings) -> Path:
    """Generated videos, their keyframes, and an index with their true labels; of six videos, three are for training,
    one for validation and two for testing."""
    paths = []
    for seed in range(videos):
        paths.append(folder / "movies" / f"video{seed:02}.mp4")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        write_video(paths[-1], with_options(video, seed=seed))
    extract_keyframes(paths, output=folder / "keyframes")
    names = ["train", "train", "train", "val", "test", "test"]
    split = folder / "split.json"
    listed = {name: [path.stem for i, path in enumerate(paths) if names[i % len(names)] == name] for name in set(names)}
    split.write_text(json.dumps(listed))
    settings = with_options(IndexSettings, output=folder / "index.h5", labels=(folder / "movies",), split=split)
    return build_index([folder / "keyframes"], settings).index.path


def videos_once(
    index: Path, work: Path, seed: int, before: PretrainSettings, after: FinetuneSettings
) -> dict[str, Any]:
    """Pre-train on the keyframes of all videos and fine-tune; the same with an untrained encoder and CRN."""
    states: list[TrainingProgress] = []
    before = with_options(before, index=index, output=work / f"pretrained-{seed}", seed=seed)
    result = pretrain(before, states.append)
    # What pre-training starts from: a rate too small for a weight to move.
    nothing = with_options(before, output=work / f"nothing-{seed}", epochs=1, base_rate=1e-12, warm_up=0.0)
    pretrain(nothing)
    row: dict[str, Any] = {"seed": seed}
    for name, run, transfer, how in (
        ("no pre-training", nothing.run.output, "encoder", "center"),
        ("no pre-training, squeeze", nothing.run.output, "encoder", "squeeze"),
        ("encoder pre-trained", before.run.output, "encoder", "center"),
        ("encoder pre-trained, squeeze", before.run.output, "encoder", "squeeze"),
        ("encoder and CRN pre-trained", before.run.output, "encoder+crn", "center"),
        ("encoder and CRN pre-trained, squeeze", before.run.output, "encoder+crn", "squeeze"),
    ):
        settings = with_options(after, index=index, init=str(run), transfer=transfer, seed=seed, preparation=how)
        settings = with_options(settings, output=work / f"{name}-{seed}", feature_folder=work / "features")
        row[name] = finetune(settings).mean["ap"]
    first = states[: len(states) // before.epochs]
    row["losses at first"] = {name: statistics.fmean(s.losses[name] for s in first) for name in result.losses}
    return row | {"losses": result.losses}


def table(rows: Rows) -> str:
    """Markdown: AP in percent as mean and standard deviation over seeds."""
    systems = tuple(name for name, value in rows[0].items() if isinstance(value, float))
    spreads = [SeedSpread({row["seed"]: row[name] for row in rows}) for name in systems]
    cells = tuple(percent_with_deviation(one.mean, one.deviation) for one in spreads)
    return tables.markdown(TextTable(systems, (cells,)))


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--videos", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--work", type=Path, help="folder for all that is made; unless given, a temporary one")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        index = make_videos(work, arguments.videos, VIDEO)
        rows = []
        for seed in range(arguments.seeds):
            start = time.perf_counter()
            rows.append(videos_once(index, work, seed, ON_VIDEOS, AFTER_VIDEOS))
            print(f"{rows[-1]} {time.perf_counter() - start:.0f} s", flush=True)
    markdown = table(rows)
    print(f"\nAP in percent, mean and standard deviation over {arguments.seeds} seeds\n\n{markdown}")
    settings = {"video": VIDEO, "pretrain": ON_VIDEOS, "finetune": AFTER_VIDEOS}
    save("pretraining_helps", {"rows": rows, "settings": {key: str(asdict(value)) for key, value in settings.items()}})
    (RESULTS / "pretraining_helps.md").write_text(markdown)


if __name__ == "__main__":
    main()
