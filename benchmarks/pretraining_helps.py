"""What pre-training is good for: the same fine-tuning with it and without it.

    python benchmarks/pretraining_helps.py features data/features    # per-shot features of BBC and OVSD
    python benchmarks/pretraining_helps.py films                     # generated films, from pixels

*features*: a CRN learns on all videos of both sets, without their labels. Then it is tested as it is, by its
pseudo-boundary head, and after fine-tuning on one set, with every fourth video of that set to choose the epoch on, and
testing on the other. *films*: encoder and CRN learn on generated films from their key-frames; fine-tuning keeps the
encoder, and tests on films that only pre-training has seen, without labels. In both, "from scratch" differs in nothing
but the weights that fine-tuning begins with.

Every stage is the public function of its command. The settings of pre-training were chosen by its own losses; those on
features are the ones of `bassl reproduce`. Figures
are AP, pooled over the shots of the tested films, as mean and standard deviation over seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from measure import RESULTS, save

from pipelines.build_index import IndexSettings, build_index
from pipelines.datasets.synthetic import SyntheticFilmSettings, write_film
from pipelines.extract_keyframes import ExtractSettings, extract_keyframes
from pipelines.finetune import FinetuneSettings, finetune
from pipelines.pretrain import PretrainProgress, PretrainSettings, pretrain
from pipelines.reproduction.data import RECIPES
from pipelines.score import ScoreSettings, score
from pipelines.training.augmentation_settings import AugmentationSettings

Rows = list[dict[str, Any]]

OF_FEATURES = RECIPES["features"]
ON_FEATURES = PretrainSettings(**OF_FEATURES.pretrain, epochs=10, device="cpu", validate_epochs=0, log_steps=1000)
AFTER_FEATURES = FinetuneSettings(
    **OF_FEATURES.finetune["transformer"], **OF_FEATURES.network["transformer"], seeds=1, device="cpu"
)

FILM = SyntheticFilmSettings(scenes=14, shots_per_scene=(4, 9), shot_seconds=(0.4, 0.8), width=160, height=90)
ON_FILMS = PretrainSettings(
    epochs=20,
    batch=32,
    base_rate=6.0,
    neighbours=4,
    width=64,
    heads=4,
    encoder="timm:test_resnet",
    augmentation=AugmentationSettings(size=32, kernel_size=3),
    decoded_size=36,
    device="cpu",
    workers=1,
    validate_epochs=0,
    log_steps=1,
)
AFTER_FILMS = FinetuneSettings(
    epochs=20, batch=32, rate=3e-3, width=64, heads=4, neighbours=4, size=32, seeds=1, device="cpu", workers=1
)


def split_file(path: Path, splits: Mapping[str, str]) -> Path:
    """The split of each video as `build_index` reads it."""
    listed: dict[str, list[str]] = {}
    for video, split in splits.items():
        listed.setdefault(split, []).append(video)
    path.write_text(json.dumps(listed))
    return path


def finetuned_ap(settings: FinetuneSettings) -> float:
    return finetune(settings).mean["ap"]


def on_features(folder: Path, seeds: int, work: Path, tell: Callable[[str], None]) -> tuple[Rows, dict[str, Any]]:
    sets = [folder / "bbc", folder / "ovsd"]
    settings = IndexSettings(output=work / "index.h5", features=work / "features")
    index = build_index(sets, settings).index
    stores = tuple(index.features.values())
    ways = {}
    for source, target in (("bbc", "ovsd"), ("ovsd", "bbc")):
        own = [name for name in index.video_ids if name.startswith(source)]
        splits = {name: "val" if i % 4 == 3 else "train" for i, name in enumerate(own)}
        splits |= {name: "test" for name in index.video_ids if name.startswith(target)}
        split = split_file(work / f"{source}.json", splits)
        ways[source, target] = build_index(sets, replace(settings, output=work / f"{source}.h5", split=split)).index
    rows: Rows = []
    for seed in range(seeds):
        start = time.perf_counter()
        run = work / f"pretrained-{seed}"
        before = pretrain(replace(ON_FEATURES, index=index.path, features=stores, output=run, seed=seed))
        seconds = time.perf_counter() - start
        for (source, target), way in ways.items():
            # By the head for pseudo-boundaries: no label was ever seen.
            head = score(run, settings=ScoreSettings(index=way.path, features=work / "features", resamples=0))
            row: dict[str, Any] = {"seed": seed, "from": source, "to": target}
            row["PP head, not fine-tuned"] = head.measures["ap"].value
            for name, init in (("from scratch", "none"), ("pre-trained", str(run))):
                after = replace(AFTER_FEATURES, index=way.path, features=stores, init=init, seed=seed)
                row[name] = finetuned_ap(replace(after, output=work / f"{name}-{source}-{seed}"))
            rows.append(row | {"losses": before.losses, "seconds of pre-training": seconds})
            tell(f"seed {seed}, {source} to {target}: {row}")
    chance = {target: float(way.targets(way.rows_of(("test",))).mean()) for (_, target), way in ways.items()}
    return rows, {"pretrain": ON_FEATURES, "finetune": AFTER_FEATURES, "chance": chance}


def make_films(folder: Path, films: int, film: SyntheticFilmSettings) -> Path:
    """Generated films, their key-frames, and an index with their true labels; of six films three are to train on, one
    to choose on and two to test on."""
    paths = []
    for seed in range(films):
        paths.append(folder / "movies" / f"film{seed:02}.mp4")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        write_film(paths[-1], replace(film, seed=seed))
    extract_keyframes(paths, ExtractSettings(output=folder / "keyframes"))
    names = ["train", "train", "train", "val", "test", "test"]
    splits = {path.stem: names[i % len(names)] for i, path in enumerate(paths)}
    split = split_file(folder / "split.json", splits)
    settings = IndexSettings(output=folder / "index.h5", labels=(folder / "movies",), split=split)
    return build_index([folder / "keyframes"], settings).index.path


def films_once(index: Path, work: Path, seed: int, before: PretrainSettings, after: FinetuneSettings) -> dict[str, Any]:
    """Pre-train on the key-frames of all films, fine-tune; the same for an encoder and a CRN that learned nothing."""
    states: list[PretrainProgress] = []
    before = replace(before, index=index, output=work / f"pretrained-{seed}", seed=seed)
    result = pretrain(before, states.append)
    # What pre-training starts from: a rate too small for a weight to move.
    nothing = replace(before, output=work / f"nothing-{seed}", epochs=1, base_rate=1e-12, warm_up=0.0)
    pretrain(nothing)
    row: dict[str, Any] = {"seed": seed}
    for name, run, transfer in (
        ("no pre-training", nothing.output, "encoder"),
        ("encoder pre-trained", before.output, "encoder"),
        ("encoder and CRN pre-trained", before.output, "encoder+crn"),
    ):
        settings = replace(after, index=index, init=str(run), transfer=transfer, seed=seed)  # type: ignore[arg-type]
        settings = replace(settings, output=work / f"{name}-{seed}", feature_folder=work / "features")
        row[name] = finetuned_ap(settings)
    first = states[: len(states) // before.epochs]
    row["losses at first"] = {name: statistics.fmean(s.losses[name] for s in first) for name in result.losses}
    return row | {"losses": result.losses}


def on_films(films: int, seeds: int, work: Path, tell: Callable[[str], None]) -> tuple[Rows, dict[str, Any]]:
    index = make_films(work, films, FILM)
    rows = []
    for seed in range(seeds):
        start = time.perf_counter()
        rows.append(films_once(index, work, seed, ON_FILMS, AFTER_FILMS))
        tell(f"{rows[-1]} {time.perf_counter() - start:.0f} s")
    return rows, {"films": films, "film": FILM, "pretrain": ON_FILMS, "finetune": AFTER_FILMS}


def table(rows: Rows, groups: Sequence[str]) -> str:
    """Markdown: a line for each group, AP in percent as mean and standard deviation over seeds."""
    systems = [name for name, value in rows[0].items() if isinstance(value, float) and "seconds" not in name]
    lines = ["| " + " | ".join([*groups, *systems]) + " |", "|" + " --- |" * (len(groups) + len(systems))]
    for key in dict.fromkeys(tuple(row[g] for g in groups) for row in rows):
        own = [row for row in rows if tuple(row[g] for g in groups) == key]
        cells = []
        for name in systems:
            values = [100 * row[name] for row in own]
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{statistics.fmean(values):.1f}{spread}")
        lines.append("| " + " | ".join([*map(str, key), *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--work", type=Path, help="folder for all that is made; unless given, a temporary one")
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("features").add_argument("folder", type=Path)
    parts.add_parser("films").add_argument("--films", type=int, default=12)
    arguments = parser.parse_args()

    def tell(line: str) -> None:
        print(line, flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.work or Path(temporary)
        if arguments.part == "features":
            rows, settings = on_features(arguments.folder, arguments.seeds, folder, tell)
            markdown = table(rows, ["from", "to"])
        else:
            rows, settings = on_films(arguments.films, arguments.seeds, folder, tell)
            markdown = table(rows, [])
    print(f"\nAP in percent, mean and standard deviation over {arguments.seeds} seeds\n\n{markdown}")
    plain = {
        name: asdict(value) if hasattr(value, "__dataclass_fields__") else value for name, value in settings.items()
    }
    name = f"pretraining_helps_{arguments.part}"
    save(name, {"rows": rows, "settings": {key: str(value) for key, value in plain.items()}})
    (RESULTS / f"{name}.md").write_text(markdown + "\n")


if __name__ == "__main__":
    main()
