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
from numpy.typing import NDArray
from torch import Tensor

from pipelines.baselines.graph_cut import graph_cut
from pipelines.datasets.shot_features import ShotFeatures, read_shot_feature_folder
from pipelines.errors import BasslError, StoreError
from pipelines.evaluation.calibration import fit_calibration
from pipelines.evaluation.metrics import Evaluation, FilmScores, evaluate, miou
from pipelines.list_models import FACTS_SCHEMA, FACTS_VERSION
from pipelines.models.cut_evidence import REACH, BlockSums, side_means, similarity_band, unit_features, z_scores
from pipelines.models.relational import (
    DEFAULT_MODEL,
    Calibration,
    RelationalNetwork,
    RelationalScorer,
    RelationalSettings,
    calibrated,
    save_scorer,
    token_width,
)
from pipelines.scenes import write_atomically
from pipelines.training.relational_films import Film, TrainingSettings, as_film, film_tokens, varied

Logits = list[NDArray[np.float64]]
"""One (N,) array a video."""
Views = list[tuple[Tensor, Tensor]]
"""Forms of one film: (N, F) tokens and (N,) labels of each, the film itself first."""
Report = Callable[[str], None]

STEPS = 20
"""At most so many of Newton's; it takes about six."""
SHAPE = RelationalSettings()
TRAINING = TrainingSettings()
FOLDS = 5
"""The recipe of the model that ships."""


def views_of(film: Film, training: TrainingSettings, generator: np.random.Generator) -> Views:
    """The film and variations of it, `training.views` in all, each as `film_tokens` gives it.

    Evidence takes longer to find than a form to be fitted to it, so the variations are made once.
    """
    shown = [film, *(varied(film, training, generator) for _ in range(training.views - 1))]
    return [film_tokens(each) for each in shown]


def prepare(videos: Sequence[ShotFeatures], training: TrainingSettings, seed: int = 0) -> list[Views]:
    """Views of each video; what it shows depends on the video, its place and the seed, and on nothing else."""
    return [views_of(as_film(video), training, np.random.default_rng((seed, i))) for i, video in enumerate(videos)]


def fit(films: Sequence[Views], training: TrainingSettings) -> RelationalScorer:
    """The linear form with the least class-balanced cross-entropy and penalty, by Newton's method; not calibrated.

    Args:
        films: all views of each; at least one film, with a scene end and another shot among them.
        training: see there.

    Raises:
        ValueError: no film, or labels of one class only.
    """
    views = [view for film in films for view in film]
    # A film's last shot has no cut, and so no evidence.
    x = torch.cat([tokens[:-1, :-1] for tokens, _ in views]).double() if views else torch.zeros(0, 1)
    y = torch.cat([ends[:-1] for _, ends in views]).double() if views else torch.zeros(0)
    positives = int(y.sum())
    if positives in (0, len(y)):
        raise ValueError("training needs films with scene ends and with other shots")
    weight = torch.where(y == 1, 0.5 / positives, 0.5 / (len(y) - positives))
    mean, deviation = x.mean(dim=0), x.std(dim=0).clamp_min(1e-6)
    x = torch.cat([(x - mean) / deviation, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    penalty = torch.full((x.shape[1],), training.penalty, dtype=x.dtype)
    penalty[-1] = 0  # the constant is free

    weights = torch.zeros(x.shape[1], dtype=x.dtype)
    for _ in range(STEPS):
        p = torch.sigmoid(x @ weights)
        gradient = x.T @ (weight * (p - y)) + penalty * weights
        curvature = x.T @ (x * (weight * p * (1 - p))[:, None]) + torch.diag(penalty)
        step = torch.linalg.solve(curvature, gradient)
        weights -= step
        if float(step.abs().max()) < 1e-8:
            break
    slopes = weights[:-1] / deviation
    network = RelationalNetwork(SHAPE)
    with torch.no_grad():
        network.weighing.weight[0] = torch.cat([slopes, slopes.new_zeros(1)]).float()  # nothing for being in the film
        network.weighing.bias[0] = float(weights[-1] - slopes @ mean)
    return RelationalScorer([network])


def folds(count: int, number: int) -> list[list[int]]:
    """Share `count` videos out: every `number`-th video, so that neighbours (of the same set) are spread evenly."""
    return [list(range(first, count, number)) for first in range(min(number, count))]


def cross_validate(films: Sequence[Views], training: TrainingSettings, number: int = 5) -> list[RelationalScorer]:
    """Fit a scorer without each fold of films.

    Returns:
        For each film, the scorer that has not seen it (the films of a fold share one).

    Raises:
        ValueError: fewer than two films.
    """
    if len(films) < 2:
        raise ValueError("cross-validation needs two videos or more")
    blind: dict[int, RelationalScorer] = {}
    for held_out in folds(len(films), number):
        scorer = fit([film for i, film in enumerate(films) if i not in held_out], training)
        blind.update(dict.fromkeys(held_out, scorer))
    return [blind[i] for i in range(len(films))]


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
    across: the evidence of that name, for any reach. The last shot of the film gets the lowest value.

    Returns:
        (N,), higher where a scene more likely ends.
    """
    contrast = side_means(BlockSums(film_similarities(video)), reach).contrast
    return np.append(contrast, contrast.min(initial=0.0))


def closest_across(video: ShotFeatures, reach: int) -> NDArray[np.float64]:
    """Another baseline without learning: how little alike the two most alike shots on either side of a cut are.

    The greatest similarity between one of the last `reach` shots up to the cut and one of the first `reach` after it,
    negated: a cut that no shot is taken up again across. The last shot of the film gets the lowest value.

    Returns:
        (N,), higher where a scene more likely ends.
    """
    z = film_similarities(video)
    N = len(z)
    cuts, places = np.arange(1, N)[:, None, None], np.arange(reach)
    before, after = cuts - 1 - places[:, None], cuts + places
    exists = (before >= 0) & (after < N)
    greatest = np.where(exists, z[np.maximum(before, 0), np.where(exists, after - before, 0)], -np.inf).max(axis=(1, 2))
    return np.append(-greatest, (-greatest).min(initial=0.0))


def film_similarities(video: ShotFeatures) -> NDArray[np.float64]:
    """z-scores of the similarities about the film's mean, as the evidence has them, (N, REACH + 1)."""
    return z_scores(similarity_band(unit_features(video.features)[0], REACH))


def recursive_cuts(video: ShotFeatures, reach: int) -> NDArray[np.float64]:
    """GraphCut (Rasheed and Shah 2005) as `pipelines.baselines` has it, of the whole film whatever the reach."""
    return graph_cut(video.features, video.shots).score


BASELINES = {
    "left-right contrast": left_right_contrast,
    "closest pair across": closest_across,
    "GraphCut": recursive_cuts,
}


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
        validation: metrics of these logits, calibrated, on all videos.
        disguised: the same metrics with the held-out videos' features disguised, and those of the baselines.
        across: metrics from one set to the other, by (trained on, tested on); empty unless there are two sets.
        unlearnt: the baselines' metrics, by set (and "all") and baseline, with the reach that served best.
    """

    videos: Sequence[ShotFeatures]
    logits: Logits
    calibration: Calibration
    validation: Evaluation
    disguised: Mapping[str, tuple[Evaluation, Sequence[Evaluation]]]
    across: Mapping[tuple[str, str], Evaluation]
    unlearnt: Mapping[tuple[str, str], tuple[int, Evaluation]]


def set_of(video: ShotFeatures) -> str:
    """The set that a video's id begins with."""
    return video.video_id.split("/")[0]


def by_set(videos: Sequence[ShotFeatures]) -> dict[str, list[ShotFeatures]]:
    """Videos by their set."""
    sets: dict[str, list[ShotFeatures]] = {}
    for video in videos:
        sets.setdefault(set_of(video), []).append(video)
    return sets


def measure(
    videos: Sequence[ShotFeatures],
    films: Sequence[Views],
    training: TrainingSettings,
    number: int = 5,
    report: Report = lambda line: None,
) -> Study:
    """Cross-validate, calibrate, and test from set to set."""
    report("cross-validation")
    blind = cross_validate(films, training, number)
    logits = [scorer.token_logits(film[0][0]) for scorer, film in zip(blind, films, strict=True)]
    calibration = calibrate(logits, videos)

    def judged(tested: Sequence[ShotFeatures], values: Logits) -> Evaluation:
        return evaluate(scored(tested, [calibrated(value, calibration) for value in values]))

    sets = by_set(videos)
    across: dict[tuple[str, str], Evaluation] = {}
    for taught, tested in ((a, b) for a in sets for b in sets if a != b):
        report(f"trained on {taught}, tested on {tested}")
        known = [film for film, video in zip(films, videos, strict=True) if set_of(video) == taught]
        scorer = fit(known, training)
        across[taught, tested] = judged(sets[tested], [scorer.logits(v.features, v.durations) for v in sets[tested]])

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
        disguised,
        across,
        unlearnt,
    )


def model_card(study: Study, training: TrainingSettings, number: int) -> str:
    """The model card, in Markdown: what the model is, and every number of a study."""
    labels = np.concatenate([video.scene_end for video in study.videos])
    values = [calibrated(value, study.calibration) for value in study.logits]
    scores = np.concatenate(values)
    films = scored(study.videos, values)
    lines = [
        CARD_HEAD.format(
            kinds=token_width() - 1,
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
        f"{min(number, len(study.videos))} folds of whole videos. What counts as evidence was chosen by tests within "
        "each set, that is, on these same videos; docs/default-model.md tells what was chosen how.",
        "",
        *_table(
            ["", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5", "AP, mean of films", "F1, mean of films"],
            [_row("all", study.validation)],
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
                ["trained on", "tested on", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5"],
                [[taught, tested, *_row("", result)[1:5]] for (taught, tested), result in study.across.items()],
            ),
            "",
        ]
    lines += [
        "### Without learning",
        "",
        "Over the same similarities. Left-right contrast: the mean similarity among the shots on each side of a cut "
        "less the mean across it. Closest pair across: the greatest similarity of a shot before the cut and a shot "
        "after it, negated. GraphCut: as `bassl baseline` has it, of the whole film. The number of shots on a side is "
        "the one that is best for the row, chosen on its own labels, in the baselines' favour. Chance is the share of "
        "scene ends, above.",
        "",
        *_table(
            ["set", "baseline", "shots on a side", "AP", "AUC"],
            [
                [
                    name,
                    method,
                    "all" if BASELINES[method] is recursive_cuts else str(reach),
                    _percent(result.ap),
                    _percent(result.auc),
                ]
                for (name, method), (reach, result) in study.unlearnt.items()
            ],
        ),
        "",
        "### Encoders that training has not seen",
        "",
        "Cross-validation as above, the features of the held-out videos disguised, model and operating point the "
        "same. A stand-in: it says how little the model leans on the axes and the number of dimensions of the "
        "features, not how good the features of another encoder are.",
        "",
        *_table(
            ["features", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5", *(f"AP of {method}" for method in BASELINES)],
            [
                [*_row(name, result)[:5], *(_percent(plain.ap) for plain in baselines)]
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


def _row(name: str, result: Evaluation) -> list[str]:
    """A name, then AP, AUC, F1, mIoU, and the means over films of AP and F1."""
    columns = ("ap", "auc", "f1", "miou", "film_ap", "film_f1")
    return [name, *(_percent(float(getattr(result, column))) for column in columns)]


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
their features, and so works with any shot encoder. At each cut it weighs {kinds} kinds of evidence by a linear form:
what a cut there costs a graph of the shots (normalised cuts of the whole film and of the surroundings, at several
scales of time), how much more alike the shots are on either side than across, how closely what follows takes up what
came before, how many links between shots the cut severs, and the lengths of the shots next to it. All but the last are
found in similarities of two kinds: cosines of two shots' features, scaled to unit length, about the film's mean, and
about the mean of the 64 shots on either side. A cut whose logit is below that of one of the two cuts on either side
then loses up to 1 to it: two neighbouring cuts are hardly both scene ends.

Fitting: logistic regression, the classes balanced, with a penalty of {training.penalty:g} on the squares of the weights
(evidence scaled to deviation 1), solved exactly. Each film is there in {training.views} forms: as it is, and with the
scenes in another order, at random, and the features raised to a power from {low:g} to {high:g} as if they came from
another encoder.
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
- The shipped model saw all of these videos. Their scores on them say nothing; only the tables above do.
- Annotators disagree about scenes. A good share of what counts as a mistake here is another reading of the film.
- It sees pictures only, no sound and no speech, and compares no shots that lie more than 48 apart.
- It relies on shots being found about as TransNetV2 finds them; a detector that cuts much finer or coarser shifts
  what a number of shots means.
- The calibration is for VGG19 features of one frame a shot. With another encoder the order of the scores is what to
  trust first; the threshold may want moving.

## Making it again

    make default-model FEATURES=DIR

`DIR` holds one `.npz` a video, in a folder a set: `features` (N, D) float, `shots` (N, 2) int64 half-open frame
ranges, `scene_end` (N,) uint8. It takes one core a minute or two. The same files on the same machine with
the same PyTorch give the same model, byte by byte.

## Licence

The weights are published under the licence of this project. They were learnt from features that derive from
films, annotations (OVSD: CC BY-SA 3.0; BBC Planet Earth: its authors' terms) and ImageNet weights of VGG19, each
under its own terms, which apply to whoever uses those files.
"""


def model_facts(study: Study, number: int, model: bytes) -> dict[str, Any]:
    """What `bassl models` tells of the model, as plain JSON values."""

    def measured(how: str, result: Evaluation) -> dict[str, Any]:
        return {"how": how, **{name: round(getattr(result, name), 3) for name in ("ap", "auc", "f1", "miou")}}

    folds_made = min(number, len(study.videos))
    return {
        "schema": FACTS_SCHEMA,
        "version": FACTS_VERSION,
        "model_sha256": hashlib.sha256(model).hexdigest(),
        "trained": f"logistic regression over {token_width() - 1} kinds of evidence",
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
    report(f"finding the evidence in {len(videos)} videos and {TRAINING.views - 1} variations of each")
    films = prepare(videos, TRAINING)
    study = measure(videos, films, TRAINING, FOLDS, report)
    scorer = RelationalScorer(fit(films, TRAINING).members, study.calibration)
    save_scorer(output, scorer)
    facts = model_facts(study, FOLDS, output.read_bytes())
    write_atomically(output.with_suffix(".json"), json.dumps(facts, indent=1).encode() + b"\n")
    card = output.with_name("MODEL_CARD.md")
    try:
        part = card.with_name(f".{card.name}.part")
        part.write_text(model_card(study, TRAINING, FOLDS), encoding="utf-8")
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
