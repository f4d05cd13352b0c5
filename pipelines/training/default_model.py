"""The model in the box, made again: `python -m pipelines.training.default_model FEATURES`.

From a folder of labelled per-shot features (`pipelines.datasets.shot_features`) to the files that ship with the
package: the relational scorer, trained on all videos; its model card, whose every number is measured here, by
cross-validation over videos and by training on one set and testing on the other; and the most of that as JSON, for
`bassl models`.
"""

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from pipelines.datasets.shot_features import ShotFeatures, read_shot_feature_folder
from pipelines.errors import BasslError, StoreError
from pipelines.evaluation.calibration import fit_calibration
from pipelines.evaluation.metrics import Evaluation, FilmScores, evaluate, miou
from pipelines.list_models import FACTS_SCHEMA, FACTS_VERSION
from pipelines.models.relational import (
    DEFAULT_MODEL,
    Calibration,
    RelationalNetwork,
    RelationalScorer,
    RelationalSettings,
    calibrated,
    save_scorer,
)
from pipelines.scenes import write_atomically
from pipelines.training.relational_films import Film, TrainingSettings, as_film, film_tokens, varied

Logits = list[NDArray[np.float64]]
"""One (N,) array a video."""
Report = Callable[[str], None]

SHAPE = RelationalSettings()
TRAINING = TrainingSettings()
FOLDS = 5
"""The recipe of the model that ships."""


def train_network(
    films: Sequence[Film], shape: RelationalSettings, training: TrainingSettings, seed: int
) -> RelationalNetwork:
    """Train one network with class-balanced binary cross-entropy.

    Every epoch sees every film once: as it is, backwards, with its scenes reordered, or both, and with its features
    raised to a random power.

    Args:
        films: at least one, with a scene end and another shot among them.
        shape: of the network.
        training: see there; `members` is not used here.
        seed: the same seed gives the same weights on the same machine. PyTorch's global generator is left as it was.

    Raises:
        ValueError: no film, or labels of one class only.
    """
    labels = np.concatenate([film.scene_end for film in films]) if films else np.zeros(0, np.uint8)
    positives = int(labels.sum())
    if positives in (0, len(labels)):
        raise ValueError("training needs films with scene ends and with other shots")
    balance = torch.tensor((len(labels) - positives) / positives)
    steps = max(1, training.epochs * math.ceil(len(labels) / training.batch_size))
    warmup = max(1, steps // 20)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generator = np.random.default_rng(seed)
        network = RelationalNetwork(shape).train()
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, (step + 1) / warmup) * (1 + math.cos(math.pi * step / steps)) / 2
        )
        for _ in range(training.epochs):
            shown = [film_tokens(varied(film, training, generator), shape.neighbors) for film in films]
            tokens = torch.cat([film[0] for film in shown])
            targets = torch.cat([film[1] for film in shown])
            for batch in torch.split(torch.randperm(len(targets)), training.batch_size):
                loss = F.binary_cross_entropy_with_logits(network(tokens[batch]), targets[batch], pos_weight=balance)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                schedule.step()
    return network.eval()


def train_scorer(
    videos: Sequence[ShotFeatures], shape: RelationalSettings, training: TrainingSettings, seed: int = 0
) -> RelationalScorer:
    """Train `training.members` networks, with the seeds `seed`, `seed + 1`, ..., into one scorer, not calibrated."""
    films = [as_film(video) for video in videos]
    return RelationalScorer([train_network(films, shape, training, seed + i) for i in range(training.members)])


def folds(count: int, number: int) -> list[list[int]]:
    """Share `count` videos out: every `number`-th video, so that neighbours (of the same set) are spread evenly."""
    return [list(range(first, count, number)) for first in range(min(number, count))]


def cross_validate(
    videos: Sequence[ShotFeatures],
    shape: RelationalSettings,
    training: TrainingSettings,
    number: int = 5,
    report: Report = lambda line: None,
) -> list[RelationalScorer]:
    """Train a scorer without each fold of videos.

    Returns:
        For each video, the scorer that has not seen it (the videos of a fold share one).

    Raises:
        ValueError: fewer than two videos.
    """
    if len(videos) < 2:
        raise ValueError("cross-validation needs two videos or more")
    blind: dict[int, RelationalScorer] = {}
    for k, held_out in enumerate(folds(len(videos), number)):
        report(f"cross-validation: fold {k + 1} of {min(number, len(videos))}")
        scorer = train_scorer([video for i, video in enumerate(videos) if i not in held_out], shape, training)
        blind.update(dict.fromkeys(held_out, scorer))
    return [blind[i] for i in range(len(videos))]


def calibrate(logits: Logits, videos: Sequence[ShotFeatures]) -> Calibration:
    """Fit how logits become scores: Platt's slope, and 0.5 where F1 is best, all shots pooled.

    Args:
        logits: of scorers that have not seen the video they score.
        videos: the videos, in the same order.
    """
    pooled = np.concatenate(logits)
    labels = np.concatenate([video.scene_end for video in videos])
    return fit_calibration(pooled, labels)


def left_right_contrast(video: ShotFeatures, reach: int) -> NDArray[np.float64]:
    """The baseline without learning: how much more alike shots are on each side of a cut than across it.

    Mean similarity among the last `reach` shots up to the cut and among the first `reach` after it, less the mean
    across. Same similarities as the network reads. The last shot of the film gets the lowest value.

    Returns:
        (N,), higher where a scene more likely ends.
    """
    tokens, _ = film_tokens(as_film(video), reach)
    similarity, inside = tokens[:, :, : 2 * reach + 1].double(), tokens[:, :, -1].double()
    side = torch.zeros(2, 2 * reach + 1, dtype=torch.float64)
    side[0, 1 : reach + 1] = 1
    side[1, reach + 1 :] = 1
    members = inside[:, None, :] * side  # (N, 2, S)
    total = members @ similarity @ members.transpose(1, 2)
    pairs = members.sum(2)[:, :, None] * members.sum(2)[:, None, :]
    mean = total / pairs.clamp_min(1)
    contrast: NDArray[np.float64] = ((mean[:, 0, 0] + mean[:, 1, 1]) / 2 - mean[:, 0, 1]).numpy()
    contrast[-1] = contrast.min()
    return contrast


def closest_across(video: ShotFeatures, reach: int) -> NDArray[np.float64]:
    """Another baseline without learning: how little alike the two most alike shots on either side of a cut are.

    The greatest similarity between one of the last `reach` shots up to the cut and one of the first `reach` after it,
    negated: a cut that no shot is taken up again across. The last shot of the film gets the lowest value.

    Returns:
        (N,), higher where a scene more likely ends.
    """
    tokens, _ = film_tokens(as_film(video), reach)
    similarity, inside = tokens[:, 1 : reach + 1, reach + 1 : -2].double(), tokens[:, :, -1] > 0
    exists = inside[:, 1 : reach + 1, None] & inside[:, None, reach + 1 :]
    greatest = similarity.masked_fill(~exists, -math.inf).amax(dim=(1, 2))
    unlike: NDArray[np.float64] = (-greatest).numpy()
    unlike[-1] = unlike[:-1].min(initial=0.0)  # nothing follows the last shot
    return unlike


BASELINES = {"left-right contrast": left_right_contrast, "closest pair across": closest_across}


def disguises(width: int, seed: int = 0) -> dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]]:
    """Ways to turn features of `width` dimensions into those of an encoder that training has not seen."""
    generator = np.random.default_rng(seed)
    some, few = generator.permutation(width)[: width // 4], generator.permutation(width)[: width // 16]
    rotation = np.linalg.qr(generator.normal(size=(width, width)))[0]
    projection = generator.normal(size=(width, 1280)) / math.sqrt(width)

    def principal(x: NDArray[np.float32]) -> NDArray[np.float32]:
        centred = x - x.mean(axis=0)
        axes = np.linalg.svd(centred, full_matrices=False)[2][:128]
        return np.asarray(centred @ axes.T, dtype=np.float32)

    return {
        "as they are": lambda x: x,
        "a random quarter of the dimensions": lambda x: x[:, some],
        "a random sixteenth of the dimensions": lambda x: x[:, few],
        "rotated at random (no longer non-negative)": lambda x: (x @ rotation).astype(np.float32),
        "their first 128 principal components": principal,
        "projected at random to 1280, then ReLU": lambda x: np.maximum(x @ projection, 0).astype(np.float32),
    }


def scored(videos: Sequence[ShotFeatures], scores: Sequence[NDArray[np.float64]]) -> list[FilmScores]:
    return [FilmScores(video.scene_end, score, video.shots) for video, score in zip(videos, scores, strict=True)]


@dataclass(frozen=True)
class Study:
    """All that the model card tells, measured.

    Attributes:
        videos: what was read, in order.
        logits: of each video, by the scorer of cross-validation that has not seen it.
        calibration: fitted on these logits.
        validation: metrics of these logits, calibrated, on all videos; `single`: of each member alone, a seed each.
        disguised: the same metrics with the held-out videos' features disguised, and those of the baselines.
        across: metrics from one set to the other, by (trained on, tested on); empty unless there are two sets.
        across_single: the same, of each member alone.
        unlearnt: the baselines' metrics, by set (and "all") and baseline, with the reach that served best.
    """

    videos: Sequence[ShotFeatures]
    logits: Logits
    calibration: Calibration
    validation: Evaluation
    single: Sequence[Evaluation]
    disguised: Mapping[str, tuple[Evaluation, Sequence[Evaluation]]]
    across: Mapping[tuple[str, str], Evaluation]
    across_single: Mapping[tuple[str, str], Sequence[Evaluation]]
    unlearnt: Mapping[tuple[str, str], tuple[int, Evaluation]]


def by_set(videos: Sequence[ShotFeatures]) -> dict[str, list[ShotFeatures]]:
    """Videos by the set that their id begins with."""
    sets: dict[str, list[ShotFeatures]] = {}
    for video in videos:
        sets.setdefault(video.video_id.split("/")[0], []).append(video)
    return sets


def measure(
    videos: Sequence[ShotFeatures],
    shape: RelationalSettings,
    training: TrainingSettings,
    number: int = 5,
    report: Report = lambda line: None,
) -> Study:
    """Cross-validate, calibrate, and test from set to set."""
    blind = cross_validate(videos, shape, training, number, report)
    logits = [scorer.logits(video.features, video.durations) for scorer, video in zip(blind, videos, strict=True)]
    calibration = calibrate(logits, videos)

    def judged(tested: Sequence[ShotFeatures], values: Logits) -> Evaluation:
        return evaluate(scored(tested, [calibrated(value, calibration) for value in values]))

    single = [
        judged(
            videos,
            [
                RelationalScorer([scorer.members[m]]).logits(video.features, video.durations)
                for scorer, video in zip(blind, videos, strict=True)
            ],
        )
        for m in range(training.members)
    ]
    sets = by_set(videos)
    across: dict[tuple[str, str], Evaluation] = {}
    across_single: dict[tuple[str, str], list[Evaluation]] = {}
    for taught, tested in ((a, b) for a in sets for b in sets if a != b):
        report(f"trained on {taught}, tested on {tested}")
        scorer = train_scorer(sets[taught], shape, training)

        def test(one: RelationalScorer, on: Sequence[ShotFeatures] = sets[tested]) -> Evaluation:
            return judged(on, [one.logits(video.features, video.durations) for video in on])

        across[taught, tested] = test(scorer)
        across_single[taught, tested] = [test(RelationalScorer([member])) for member in scorer.members]

    unlearnt = {}
    for name, group in {**sets, "all": list(videos)}.items():
        for method, baseline in BASELINES.items():
            tried = [
                (reach, evaluate(scored(group, [baseline(video, reach) for video in group]))) for reach in range(2, 9)
            ]
            unlearnt[name, method] = max(tried, key=lambda pair: pair[1].ap)

    disguised = {}
    by_width = {width: disguises(width) for width in {video.features.shape[1] for video in videos}}
    for name in next(iter(by_width.values())):
        report(f"cross-validation: features {name}")
        other = [replace(video, features=by_width[video.features.shape[1]][name](video.features)) for video in videos]
        values = [scorer.logits(video.features, video.durations) for scorer, video in zip(blind, other, strict=True)]
        plain = [
            evaluate(scored(videos, [baseline(video, unlearnt["all", method][0]) for video in other]))
            for method, baseline in BASELINES.items()
        ]
        disguised[name] = (judged(videos, values), plain)
    return Study(
        videos,
        logits,
        calibration,
        judged(videos, logits),
        single,
        disguised,
        across,
        across_single,
        unlearnt,
    )


def model_card(study: Study, shape: RelationalSettings, training: TrainingSettings, number: int) -> str:
    """The model card, in Markdown: what the model is, and every number of a study."""
    labels = np.concatenate([video.scene_end for video in study.videos])
    values = [calibrated(value, study.calibration) for value in study.logits]
    scores = np.concatenate(values)
    films = scored(study.videos, values)
    lines = [
        CARD_HEAD.format(
            S=shape.window,
            K=shape.neighbors,
            shape=shape,
            training=training,
            low=training.powers[0],
            high=training.powers[1],
        ),
        "## Data",
        "",
        *_table(
            ["set", "videos", "shots", "scene ends", "share (AP of chance)"],
            [
                [
                    name,
                    str(len(group)),
                    str(sum(len(video.scene_end) for video in group)),
                    str(sum(int(video.scene_end.sum()) for video in group)),
                    _percent(float(np.concatenate([video.scene_end for video in group]).mean())),
                ]
                for name, group in {**by_set(study.videos), "all": list(study.videos)}.items()
            ],
        ),
        CARD_DATA,
        "## What was measured",
        "",
        CARD_PROTOCOL,
        f"### Cross-validation over all {len(study.videos)} videos",
        "",
        f"{min(number, len(study.videos))} folds of whole videos. The recipe was chosen with the tests between the "
        "sets (next table) in view, that is, on these same videos: no number here is of data without a part in any "
        "choice.",
        "",
        *_table(
            ["", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5", "AP, mean of films", "F1, mean of films"],
            [
                _row(f"{training.members} networks together", [study.validation]),
                _row(f"one network, mean and deviation over {training.members} seeds", study.single),
            ],
        ),
        "",
        "The operating point was fitted on these logits, so F1 and mIoU are a little optimistic; AP and AUC do not "
        "depend on it.",
        "",
    ]
    if study.across:
        lines += [
            "### From one set to the other",
            "",
            "Trained on all videos of one set, tested on all of the other. The operating point is that of "
            "cross-validation, which has seen labels of both.",
            "",
            *_table(
                ["trained on", "tested on", "", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5"],
                [
                    [taught, tested, *_row(name, group)[:5]]
                    for (taught, tested), together in study.across.items()
                    for name, group in (
                        (f"{training.members} networks together", [together]),
                        (f"one network, {training.members} seeds", study.across_single[taught, tested]),
                    )
                ],
            ),
            "",
        ]
    lines += [
        "### Without learning",
        "",
        "Over the same similarities. Left-right contrast: the mean similarity among the shots on each side of a cut "
        "less the mean across it. Closest pair across: the greatest similarity of a shot before the cut and a shot "
        "after it, negated. The number of shots on a side is the one that is best for the row, chosen on its own "
        "labels, in the baselines' favour. Chance is the share of scene ends, above.",
        "",
        *_table(
            ["set", "baseline", "shots on a side", "AP", "AUC"],
            [
                [name, method, str(reach), _percent(result.ap), _percent(result.auc)]
                for (name, method), (reach, result) in study.unlearnt.items()
            ],
        ),
        "",
        "### Encoders that training has not seen",
        "",
        "Cross-validation as above, the features of the held-out videos disguised, networks and operating point the "
        "same. A stand-in: it says how little the model leans on the axes and the number of dimensions of the "
        "features, not how good the features of another encoder are.",
        "",
        *_table(
            ["features", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5", *(f"AP of {method}" for method in BASELINES)],
            [
                [*_row(name, [result])[:5], *(_percent(plain.ap) for plain in baselines)]
                for name, (result, baselines) in study.disguised.items()
            ],
        ),
        "",
        "## What a score means",
        "",
        "A score of 0.5 is an **operating point**, the one with the best F1 in cross-validation; it is not a "
        f"probability of one half. `score = sigmoid({study.calibration.slope:.4f} * (logit - "
        f"{study.calibration.offset:.4f}))`: the slope is that of Platt scaling, the offset puts the operating point "
        "at 0.5. This is how often a scene did end with a shot, by its score, in cross-validation:",
        "",
        *_table(["score", "shots", "scene ends", "share"], _reliability(labels, scores)),
        "",
        "And this is what other thresholds would do:",
        "",
        *_table(["threshold", "precision", "recall", "F1", "mIoU"], _thresholds(labels, scores, films)),
        "",
        CARD_TAIL,
    ]
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _row(name: str, results: Sequence[Evaluation]) -> list[str]:
    """A name, then AP, AUC, F1, mIoU, and the means over films of AP and F1; with deviations if there are several."""
    row = [name]
    for column in ("ap", "auc", "f1", "miou", "film_ap", "film_f1"):
        values = [float(getattr(result, column)) for result in results]
        deviation = f" ± {_percent(float(np.std(values, ddof=1)))}" if len(values) > 1 else ""
        row.append(_percent(float(np.mean(values))) + deviation)
    return row


def _reliability(labels: NDArray[np.uint8], scores: NDArray[np.float64]) -> list[list[str]]:
    rows = []
    bins = np.minimum((scores * 10).astype(np.int64), 9)
    for k in range(10):
        count, ends = int((bins == k).sum()), int(labels[bins == k].sum())
        rows.append(
            [
                f"{k / 10:.1f} to {(k + 1) / 10:.1f}",
                str(count),
                str(ends),
                f"{100 * ends / count:.0f} %" if count else "-",
            ]
        )
    return rows


def _thresholds(labels: NDArray[np.uint8], scores: NDArray[np.float64], films: Sequence[FilmScores]) -> list[list[str]]:
    rows = []
    for threshold in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        taken = scores >= threshold
        hits = int(labels[taken].sum())
        precision, recall = hits / max(int(taken.sum()), 1), hits / max(int(labels.sum()), 1)
        f1 = 2 * precision * recall / max(precision + recall, 1e-12)
        rows.append([f"{threshold:.1f}", *map(_percent, (precision, recall, f1, miou(films, threshold)))])
    return rows


CARD_HEAD = """\
# Model card: the relational CRN in the box

This file is written by `make default-model`; do not edit it by hand.

## What it is

`relational.safetensors` scores every shot of a film: does a scene end with it? It reads relations between shots, never
their features, and so works with any shot encoder. For a window of S = {S} shots (K = {K} on either side of the
centre) the token of a shot is its similarity to each of the {S} shots, its log-duration, and whether it lies inside
the film; a Transformer ({shape.layers} layers, {shape.width} wide, {shape.heads} heads) and a linear head at the
centre give a logit. A similarity is the cosine of two features after the film's mean is taken off, z-scored over all
pairs that share a window. {training.members} such networks, which differ in their seed, read the film forwards and
backwards; their logits are averaged.

Training: class-balanced binary cross-entropy, AdamW (rate {training.learning_rate:g}, weight decay
{training.weight_decay:g}), cosine schedule, batches of {training.batch_size}, {training.epochs} epochs, dropout
{shape.dropout:g}. In every epoch, at random: films run backwards, scenes of a film in another order, features raised
to a power from {low:g} to {high:g} as if they came from another encoder.
"""

CARD_DATA = """
Measured and trained on per-shot features of public sets, in the layout that `data/README.md` describes. The shipped
model was trained on `bbc`, BBC Planet Earth (Baraldi et al. 2015, labels of annotator 0), 11 episodes; and `ovsd`,
Open Video Scene Detection (Rotman et al. 2016, CC BY-SA 3.0), 14 of its 21 films. Features: VGG19 (ImageNet
weights), globally pooled, 512 dimensions, of the middle frame of each shot; shots by TransNetV2. Neither films nor
features are in the package; the weights are all that was kept of them.
"""

CARD_PROTOCOL = """\
All in percent. AP (the primary number), AUC and F1 are pooled over shots, mIoU is a mean over films, as in the release
of the BaSSL paper. The last shot of a video has the label 0 in these files although the film ends with it; it is
counted like any other shot.

The BaSSL paper (Table of BBC and OVSD) gives AP 39.98 on BBC and 28.68 on OVSD, for a model trained on MovieNet and
not fine-tuned. Features, shots and the choice of videos differ here: a landmark, not a like-for-like comparison.
"""

CARD_TAIL = """\
## Limits

- Twenty-five videos taught it: nature documentaries, and short and independent films, part of them animated. News,
  sport, talk and user video were not among them.
- The shipped networks saw all of these videos. Their scores on them say nothing; only the tables above do.
- Annotators disagree about scenes. A good share of what counts as a mistake here is another reading of the film.
- It sees pictures only, no sound, no speech, and nothing beyond eight shots on either side.
- It relies on shots being found about as TransNetV2 finds them; a detector that cuts much finer or coarser shifts
  what eight shots mean.
- The calibration is for VGG19 features of one frame a shot. With another encoder the order of the scores is what to
  trust first; the threshold may want moving.

## Making it again

    make default-model FEATURES=DIR

`DIR` holds one `.npz` a video, in a folder a set: `features` (N, D) float, `shots` (N, 2) int64 half-open frame
ranges, `scene_end` (N,) uint8. It takes one core about a quarter of an hour. The same files on the same machine with
the same PyTorch give the same model, byte by byte.

## Licence

The weights are published under the licence of this project. They were learnt from features that derive from
films, annotations (OVSD: CC BY-SA 3.0; BBC Planet Earth: its authors' terms) and ImageNet weights of VGG19, each
under its own terms, which apply to whoever uses those files.
"""


def model_facts(study: Study, training: TrainingSettings, number: int, model: bytes) -> dict[str, Any]:
    """What `bassl models` tells of the model, as plain JSON values."""

    def measured(how: str, result: Evaluation) -> dict[str, Any]:
        return {"how": how, **{name: round(getattr(result, name), 3) for name in ("ap", "auc", "f1", "miou")}}

    folds_made = min(number, len(study.videos))
    return {
        "schema": FACTS_SCHEMA,
        "version": FACTS_VERSION,
        "model_sha256": hashlib.sha256(model).hexdigest(),
        "epochs": training.epochs,
        "trained_on": [
            {
                "set": name,
                "videos": len(group),
                "shots": sum(len(video.scene_end) for video in group),
                "scene_ends": sum(int(video.scene_end.sum()) for video in group),
            }
            for name, group in by_set(study.videos).items()
        ],
        "measured": [
            measured(f"{folds_made}-fold cross-validation", study.validation),
            *(measured(f"{one} to {other}", result) for (one, other), result in study.across.items()),
        ],
    }


def make_default_model(folder: Path, output: Path, report: Report = lambda line: None) -> Study:
    """Measure, train on all videos, and write the model, with its card `MODEL_CARD.md` and its facts beside it.

    Args:
        folder: of labelled features, one `.npz` a video.
        output: the model file to write.
        report: called with a line at the start of each part of the work.

    Raises:
        DatasetError: the folder or a file in it cannot be read.
        BasslError: the model, its card or its facts cannot be written.
        ValueError: fewer than two videos, or no scene end in what a network would learn from.
    """
    videos = read_shot_feature_folder(folder)
    study = measure(videos, SHAPE, TRAINING, FOLDS, report)
    report(f"training {TRAINING.members} networks on all {len(videos)} videos")
    scorer = RelationalScorer(train_scorer(videos, SHAPE, TRAINING).members, study.calibration)
    save_scorer(output, scorer)
    facts = model_facts(study, TRAINING, FOLDS, output.read_bytes())
    write_atomically(output.with_suffix(".json"), json.dumps(facts, indent=1).encode() + b"\n")
    card = output.with_name("MODEL_CARD.md")
    try:
        part = card.with_name(f".{card.name}.part")
        part.write_text(model_card(study, SHAPE, TRAINING, FOLDS), encoding="utf-8")
        part.replace(card)
    except OSError as error:
        raise StoreError(f"{card}: cannot be written: {error.strerror or error}; choose another place") from error
    return study


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m pipelines.training.default_model", description=__doc__)
    parser.add_argument("features", type=Path, help="folder of labelled per-shot features, one .npz a video")
    parser.add_argument("--output", type=Path, default=DEFAULT_MODEL, help="model file to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    # Sums in another order give other weights in the last digits: with one thread the model does not depend on how
    # many cores there are, and networks this small gain little from more.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        make_default_model(options.features, options.output, lambda line: print(line, file=sys.stderr, flush=True))
    except BasslError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
