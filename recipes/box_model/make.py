"""The model in the box, made again: `python -m recipes.box_model.make FEATURES`.

From a folder of labelled per-shot features (`pipelines.datasets.shot_features`) to the files that ship with the
package: the relational scorer, trained on all videos; its model card, whose every number is measured here, by
cross-validation over videos and by training on one set and testing on the other; and the most of that as JSON, for
`bassl models`. The one setting there is, the penalty of the fit, is chosen by one rule on whatever is learned from.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipelines.baselines.graph_cut import graph_cut
from pipelines.datasets.shot_features import ShotFeatures, read_shot_feature_folder
from pipelines.errors import BasslError
from pipelines.evaluation.calibration import fit_calibration
from pipelines.evaluation.metrics import Evaluation, FilmScores, average_precision, evaluate, miou
from pipelines.files import write_atomically
from pipelines.models.cut_evidence import (
    LONGEST_SCENE,
    REACH,
    BlockSums,
    side_means,
    similarity_band,
    unit_features,
    z_scores,
)
from pipelines.models.relational import (
    DEFAULT_MODEL,
    Calibration,
    RelationalNetwork,
    RelationalScorer,
    RelationalSettings,
    calibrated,
    save_scorer,
    shot_tokens,
    token_width,
)
from pipelines.models.threads import one_thread
from pipelines.stages.list_models import FACTS_SCHEMA, FACTS_VERSION
from pipelines.training.relational_films import as_film
from recipes.box_model.perturbations import DISGUISES, Disguise

Logits = list[NDArray[np.float64]]
"""One (N,) array a video."""
Report = Callable[[str], None]

STEPS = 20
"""At most so many of Newton's; it takes about six."""
SHAPE = RelationalSettings()
PENALTIES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Of the squares of the weights, for evidence of deviation 1; the loss is a mean over shots."""
FOLDS = 5
"""Of cross-validation."""
DRAWS = 5
"""Of the disguises, for the shipped model; with one, the penalty depends on the draw."""
AS_IT_IS = "as they are"


class Form(NamedTuple):
    """A video as it is, or in disguise, and what the network may know about it.

    Attributes:
        video: N shots.
        tokens: (N, F).
    """

    video: ShotFeatures
    tokens: Tensor


Forms = Mapping[str, Form]
"""Of one video: `AS_IT_IS` first, then each of the disguises."""


def form_of(video: ShotFeatures) -> Form:
    """A video as it is given."""
    return Form(video, shot_tokens(video.features, video.durations))


def disguised(video: ShotFeatures, disguise: Disguise, generator: np.random.Generator) -> ShotFeatures:
    """A video in disguise; its shots follow each other without gaps, a thousand frames long on the average."""
    film = disguise(as_film(video), generator)
    edges = np.cumsum(film.durations) * (1000 / np.mean(film.durations))
    edges = np.append(0, np.round(edges)).astype(np.int64)
    return ShotFeatures(video.video_id, film.features, np.stack([edges[:-1], edges[1:]], axis=1), film.scene_end)


def prepare(videos: Sequence[ShotFeatures], seed: int = 0) -> list[Forms]:
    """All forms of each video; what a disguise does depends on it, the video's place and the seed, and nothing else."""
    return [
        {AS_IT_IS: form_of(video)}
        | {
            name: form_of(disguised(video, disguise, np.random.default_rng((seed, i, k))))
            for k, (name, disguise) in enumerate(DISGUISES.items())
        }
        for i, video in enumerate(videos)
    ]


def fit(forms: Sequence[Form], penalty: float) -> RelationalScorer:
    """The linear form with the least class-balanced cross-entropy and penalty, by Newton's method; not calibrated.

    Args:
        forms: at least one, with a scene end and another shot among them.
        penalty: see `PENALTIES`.

    Raises:
        ValueError: no film, or labels of one class only.
    """
    # A film's last shot has no cut, and so no evidence.
    x = torch.cat([form.tokens[:-1, :-1] for form in forms]).double() if forms else torch.zeros(0, 1)
    y = torch.from_numpy(np.concatenate([np.zeros(0), *(form.video.scene_end[:-1] for form in forms)]))
    positives = int(y.sum())
    if positives in (0, len(y)):
        raise ValueError("training needs films with scene ends and with other shots")
    weight = torch.where(y == 1, 0.5 / positives, 0.5 / (len(y) - positives))
    mean, deviation = x.mean(dim=0), x.std(dim=0).clamp_min(1e-6)
    x = torch.cat([(x - mean) / deviation, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    pull = torch.full((x.shape[1],), penalty, dtype=x.dtype)
    pull[-1] = 0  # the constant is free

    weights = torch.zeros(x.shape[1], dtype=x.dtype)
    for _ in range(STEPS):
        p = torch.sigmoid(x @ weights)
        gradient = x.T @ (weight * (p - y)) + pull * weights
        curvature = x.T @ (x * (weight * p * (1 - p))[:, None]) + torch.diag(pull)
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


def cross_validate(forms: Sequence[Form], penalty: float, number: int = FOLDS) -> list[RelationalScorer]:
    """Fit a scorer without each fold of videos.

    Args:
        forms: one of each video.
        penalty: see `PENALTIES`.
        number: folds; fewer where there are fewer videos.

    Returns:
        For each video, the scorer that has not seen it (the videos of a fold share one).

    Raises:
        ValueError: fewer than two videos.
    """
    if len(forms) < 2:
        raise ValueError("cross-validation needs two videos or more")
    blind: dict[int, RelationalScorer] = {}
    for held_out in folds(len(forms), number):
        scorer = fit([form for i, form in enumerate(forms) if i not in held_out], penalty)
        blind.update(dict.fromkeys(held_out, scorer))
    return [blind[i] for i in range(len(forms))]


def choose(draws: Sequence[Sequence[Forms]], number: int = FOLDS) -> tuple[float, list[RelationalScorer]]:
    """The penalty for what is to be learned from these videos, by cross-validation within them.

    Scorers learn from the videos as they are, and are judged by the mean of their AP on a held-out video as it is and
    in each disguise; the penalty with the best mean over videos is taken, the weakest of equals.

    Args:
        draws: the videos in one draw of the disguises or, so that the choice hangs less on chance, in several.
        number: folds.

    Returns:
        The penalty, and for each video the scorer with it that has not seen the video.

    Raises:
        ValueError: fewer than two videos with a scene end.
    """
    plain = [forms[AS_IT_IS] for forms in draws[0]]
    blind = {penalty: cross_validate(plain, penalty, number) for penalty in PENALTIES}
    # Where no scene ends there is no precision.
    judging = [i for i, form in enumerate(plain) if form.video.scene_end.any()]
    precision = [
        [
            np.mean(
                [
                    average_precision(form.video.scene_end, scorers[i].token_logits(form.tokens))
                    for films in draws
                    for form in films[i].values()
                ]
            )
            for i in judging
        ]
        for scorers in blind.values()
    ]
    penalty = PENALTIES[int(np.mean(precision, axis=1).argmax())]
    return penalty, blind[penalty]


def blind_logits(scorers: Sequence[RelationalScorer], forms: Sequence[Form]) -> Logits:
    """Of each video, by its own scorer."""
    return [scorer.token_logits(form.tokens) for scorer, form in zip(scorers, forms, strict=True)]


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
SIDES = range(2, 9)
"""Shots on a side, of the baselines that have some."""


def scored(videos: Sequence[ShotFeatures], scores: Sequence[NDArray[np.float64]]) -> list[FilmScores]:
    return [FilmScores(video.scene_end, score, video.shots) for video, score in zip(videos, scores, strict=True)]


@dataclass(frozen=True)
class Study:
    """All that the model card tells, measured.

    Attributes:
        videos: what was read, in order.
        penalty: chosen on all videos.
        logits: of each video, by the scorer of cross-validation that has not seen it.
        calibration: fitted on these logits.
        validation: metrics of these logits, calibrated, on all videos.
        disguised: the same metrics of the held-out videos in each of their forms, and those of the baselines.
        across: penalty chosen on one set, and metrics on the other, by (trained on, tested on); empty unless there are
            two sets.
        unlearnt: the baselines' metrics, by set (and "all") and baseline, with the reach that served best.
    """

    videos: Sequence[ShotFeatures]
    penalty: float
    logits: Logits
    calibration: Calibration
    validation: Evaluation
    disguised: Mapping[str, tuple[Evaluation, Sequence[Evaluation]]]
    across: Mapping[tuple[str, str], tuple[float, Evaluation]]
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


def judged(forms: Sequence[Form], logits: Logits, calibration: Calibration) -> Evaluation:
    """Metrics of calibrated logits, one array a form."""
    return evaluate(scored([form.video for form in forms], [calibrated(values, calibration) for values in logits]))


def measure(
    videos: Sequence[ShotFeatures],
    draws: Sequence[Sequence[Forms]],
    number: int = FOLDS,
    report: Report = lambda line: None,
) -> Study:
    """Choose the penalty, calibrate, and test from set to set.

    Args:
        videos: all there are.
        draws: all forms of each, in one draw of the disguises or more; the first is what `Study.disguised` is of.
        number: folds.
        report: called with a line at the start of each part of the work.
    """
    report("choosing the penalty by cross-validation")
    penalty, blind = choose(draws, number)
    films = draws[0]
    plain = [forms[AS_IT_IS] for forms in films]
    logits = blind_logits(blind, plain)
    calibration = calibrate(logits, videos)

    sets = by_set(videos)
    across = {}
    for taught, tested in ((a, b) for a in sets for b in sets if a != b):
        report(f"trained on {taught}, tested on {tested}")
        known = [i for i, video in enumerate(videos) if set_of(video) == taught]
        own, scorers = choose([[each[i] for i in known] for each in draws], number)
        learnt_from = [plain[i] for i in known]
        operating = calibrate(blind_logits(scorers, learnt_from), sets[taught])
        scorer = fit(learnt_from, own)
        others = [form for form in plain if set_of(form.video) == tested]
        found = judged(others, [scorer.token_logits(form.tokens) for form in others], operating)
        across[taught, tested] = own, found

    report("baselines")
    unlearnt = {}
    for name, group in {**sets, "all": list(videos)}.items():
        for method, baseline in BASELINES.items():
            sides = (REACH,) if baseline is recursive_cuts else SIDES
            tried = [(side, evaluate(scored(group, [baseline(video, side) for video in group]))) for side in sides]
            unlearnt[name, method] = max(tried, key=lambda pair: pair[1].ap)

    in_disguise = {}
    for name in films[0]:
        report(f"cross-validation: {name}")
        shown = [forms[name] for forms in films]
        without = [
            evaluate(scored([f.video for f in shown], [baseline(f.video, unlearnt["all", method][0]) for f in shown]))
            for method, baseline in BASELINES.items()
        ]
        in_disguise[name] = judged(shown, blind_logits(blind, shown), calibration), without
    return Study(
        videos=videos,
        penalty=penalty,
        logits=logits,
        calibration=calibration,
        validation=judged(plain, logits, calibration),
        disguised=in_disguise,
        across=across,
        unlearnt=unlearnt,
    )


def model_card(study: Study, number: int) -> str:
    """The model card, in Markdown: what the model is, and every number of a study."""
    labels = np.concatenate([video.scene_end for video in study.videos])
    values = [calibrated(value, study.calibration) for value in study.logits]
    scores = np.concatenate(values)
    films = scored(study.videos, values)
    lines = [
        CARD_HEAD.format(kinds=token_width() - 1, penalty=study.penalty, among=", ".join(f"{p:g}" for p in PENALTIES)),
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
            "Trained on all videos of one set, tested on all of the other. Penalty and operating point were chosen "
            "within the set that was learned from.",
            "",
            *_table(
                ["trained on", "tested on", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5", "penalty"],
                [
                    [taught, tested, *_row("", result)[1:5], f"{penalty:g}"]
                    for (taught, tested), (penalty, result) in study.across.items()
                ],
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
        "### Films in disguise",
        "",
        "Cross-validation as above, model and operating point the same, the held-out videos as another encoder, "
        "another shot detector or another editor might have made them (`recipes/box_model/perturbations.py`). These "
        "forms had a part in the choice of the penalty. A stand-in: it says how little the model leans on what is "
        "particular to these features and shots, not how good those of another encoder are.",
        "",
        *_table(
            ["held-out videos", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5", *(f"AP of {method}" for method in BASELINES)],
            [
                [*_row(name, result)[:5], *(_percent(plain.ap) for plain in baselines)]
                for name, (result, baselines) in study.disguised.items()
            ],
        ),
        "",
        "## What a score means",
        "",
        "A score of 0.5 is an **operating point**, the one with the best F1 in cross-validation; it is not a "
        f"probability of one half. `score = sigmoid({study.calibration.slope:.4f} * "
        f"(logit {-study.calibration.offset:+.4f}))`: the slope is that of Platt scaling, the offset puts the "
        "operating point at 0.5. This is how often a scene did end with a shot, by its score, in cross-validation:",
        "",
        *_table(["score", "shots", "scene ends", "share"], _reliability(labels, scores)),
        "",
        "And this is what other thresholds would do:",
        "",
        *_table(["threshold", "precision", "recall", "F1", "mIoU"], _thresholds(labels, scores, films)),
        "",
        CARD_TAIL.format(apart=LONGEST_SCENE),
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
came before, how many links between shots the cut severs, how likely a scene ends there over all divisions of the film
into scenes, by several measures of what makes a range of shots a scene, and the lengths of the shots next to it. All
but the last are found in features of two kinds: scaled to unit length, about the film's mean and about the mean of
the 64 shots on either side. A cut whose logit is below that of one of the two cuts on either side
then loses up to 1 to it: two neighbouring cuts are hardly both scene ends.

Fitting: logistic regression, the classes balanced, with a penalty of {penalty:g} on the squares of the weights
(evidence scaled to deviation 1), solved exactly. The penalty, out of {among}, was chosen on the same
videos by one rule: the best mean AP in cross-validation, the held-out videos shown as they are and in eleven
disguises, of five draws each.
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
- It sees pictures only, no sound and no speech, and compares no shots that lie more than {apart} apart.
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
            *(measured(f"{one} to {other}", result) for (one, other), (_, result) in study.across.items()),
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
    draws = []
    for seed in range(DRAWS):
        report(f"finding the evidence in {len(videos)} videos and {len(DISGUISES)} disguises of each, draw {seed + 1}")
        draws.append(prepare(videos, seed))
    study = measure(videos, draws, FOLDS, report)
    plain = [forms[AS_IT_IS] for forms in draws[0]]
    scorer = RelationalScorer(fit(plain, study.penalty).members, study.calibration)
    save_scorer(output, scorer)
    facts = model_facts(study, FOLDS, output.read_bytes())
    write_atomically(output.with_suffix(".json"), json.dumps(facts, indent=1).encode() + b"\n")
    write_atomically(output.with_name("MODEL_CARD.md"), model_card(study, FOLDS).encode())
    return study


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m recipes.box_model.make", description=__doc__)
    parser.add_argument("features", type=Path, help="folder of labelled per-shot features, one .npz a video")
    parser.add_argument("--output", type=Path, default=DEFAULT_MODEL, help="model file to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    # Sums in another order give other weights in the last digits: with one thread the model does not depend on how
    # many cores there are, and networks this small gain little from more.
    with one_thread():
        try:
            make_default_model(options.features, options.output, lambda line: print(line, file=sys.stderr, flush=True))
        except BasslError as error:
            print(error, file=sys.stderr)
            raise SystemExit(2) from error


if __name__ == "__main__":
    main()
