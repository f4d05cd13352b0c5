"""The model card, and how the model was made, which its file says; both from a study."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.bootstrap import evaluate, measure
from pipelines.evaluation.metrics import FilmScores
from pipelines.models.calibration import calibrated
from pipelines.models.colour import HUES
from pipelines.models.cut_evidence import COLOUR_WEIGHTS, LONGEST_SCENE, PACE_SECONDS
from pipelines.models.relational import SUPPRESSION_WEIGHT, token_width
from recipes.default_model.fitting import DRAWS, PENALTIES
from recipes.default_model.study import BASELINES, Study, Test, by_set, recursive_cuts, scored


def model_card(study: Study, number: int) -> str:
    """The model card, in Markdown: what the model is, and every number of a study."""
    labels = np.concatenate([video.scene_end for video in study.videos])
    values = [calibrated(value, study.calibration) for value in study.logits]
    scores = np.concatenate(values)
    films = scored(study.videos, values)
    lines = [
        CARD_HEAD.format(
            kinds=token_width() - 1,
            penalty=study.penalty,
            among=", ".join(f"{p:g}" for p in PENALTIES),
            pace=", ".join(f"{s:g}" for s in PACE_SECONDS),
            colours=", ".join(f"{w:g}" for w in COLOUR_WEIGHTS),
            loss=SUPPRESSION_WEIGHT,
            draws="one draw" if DRAWS == 1 else f"{DRAWS} draws",
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
        CARD_DATA.format(hues=HUES),
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
            [_row("all", study.validation), _row("the same, colour not known", study.colourless)],
        ),
        "",
        "The operating point was fitted on these logits, so F1 and mIoU are a little optimistic; AP and AUC do not "
        "depend on it.",
        "",
    ]
    lines += [
        "### Blind tests",
        "",
        "Trained on all videos of one set, tested on all of the other; and nested cross-validation. Penalty and "
        "operating point were chosen within what was learned from. Intervals of 95 % are of 1,000 draws of films.",
        "",
        *_table(
            ["trained on", "tested on", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5", "penalty", "AP without colour"],
            [
                *(_test_row(taught, tested, test) for (taught, tested), test in study.across.items()),
                _test_row("the other folds", f"each of {min(number, len(study.videos))}", study.nested),
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
                    _percent(result["ap"]),
                    _percent(result["auc"]),
                ]
                for (name, method), (reach, result) in study.unlearned.items()
            ],
        ),
        "",
        "### Perturbed films",
        "",
        "Cross-validation as above, model and operating point the same, the held-out videos as another encoder, "
        "another shot detector or another editor might have made them (`recipes/default_model/perturbations.py`). "
        "These forms had a part in the choice of the penalty. A stand-in: it says how little the model depends on what "
        "is particular to these features and shots, not how good those of another encoder are.",
        "",
        *_table(
            ["held-out videos", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5"],
            [_row(name, result)[:5] for name, result in study.perturbed.items()],
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
        *_table(["threshold", "precision", "recall", "F1", "mIoU"], _thresholds(films)),
        "",
        CARD_TAIL.format(apart=LONGEST_SCENE, hues=HUES),
    ]
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _row(name: str, result: Mapping[str, float]) -> list[str]:
    """A name, then AP, AUC, F1, mIoU, and the means over films of AP and F1."""
    columns = ("ap", "auc", "f1", "miou", "film_ap", "film_f1")
    return [name, *(_percent(result[column]) for column in columns)]


def _test_row(taught: str, tested: str, test: Test) -> list[str]:
    """A test with intervals over films, where there are several."""
    measures = measure(test.seen)

    def cell(value: float | None, interval: tuple[float, float] | None) -> str:
        drawn = f" [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]" if interval else ""
        return "-" if value is None else f"{100 * value:.1f}{drawn}"

    return [
        taught,
        tested,
        *(cell(measures[name].pooled, measures[name].interval) for name in ("ap", "auc", "f1")),
        cell(measures["miou"].films, measures["miou"].films_interval),
        ", ".join(f"{penalty:g}" for penalty in sorted(set(test.penalties))),
        _percent(evaluate(test.colourless)["ap"]),
    ]


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


def _thresholds(films: Sequence[FilmScores]) -> list[list[str]]:
    rows = []
    for threshold in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        result = evaluate(films, threshold)
        rows.append([f"{threshold:.1f}", *(_percent(result[name]) for name in ("precision", "recall", "f1", "miou"))])
    return rows


CARD_HEAD = """\
# Model card: the built-in model

This file is written by `make default-model`; do not edit it by hand.

## What it is

`relational.safetensors` scores every shot of a film: does a scene end with it? It reads relations between shots, never
their features, and so works with any shot encoder. At each cut it weighs {kinds} kinds of evidence by a linear model:
what a cut there costs a graph of the shots (normalised cuts of the whole film and of the surroundings, at several
scales of time), how much more alike the shots are on either side than across, how closely what follows takes up what
came before, how many links between shots the cut severs, how likely a scene ends there over all divisions of the film
into scenes, by several measures of what makes a range of shots a scene, the lengths of the shots next to it, and how
many shots lie within {pace} seconds of it. All but the last two rest on similarities of shots: of their content
features at unit length joined with the square root of the hue histogram of the middle frame at the weights {colours},
each kind a mean over these; about the film's mean and about the mean of the 64 shots on either side. A cut whose logit
is below that of one of the two cuts on either side then loses up to {loss:g} to it: two neighbouring cuts are hardly
both scene ends. A film without colour is scored by its content and pace: what that costs is below.

Fitting: logistic regression, the classes balanced, with a penalty of {penalty:g} on the squares of the weights
(evidence scaled to deviation 1), solved exactly. The penalty, out of {among}, was chosen on the same
videos by one rule: the best mean AP in cross-validation, the held-out videos shown as they are and in eleven
perturbations, {draws} of each.
"""
CARD_DATA = """
Measured and trained on per-shot features of public sets, in the layout that `data/README.md` describes. The shipped
model was trained on `bbc`, BBC Planet Earth (Baraldi et al. 2015, labels of annotator 0), 11 episodes; and `ovsd`,
Open Video Scene Detection (Rotman et al. 2016, CC BY-SA 3.0), 14 of its 21 films. Features: VGG19 (ImageNet
weights), globally pooled, 512 dimensions, and OpenCV's hue histogram in {hues} bins, of the middle frame of each shot;
shots by TransNetV2; 25 frames a second assumed. Neither films nor
features are in the package; the weights are all that was kept of them.
"""
CARD_PROTOCOL = """\
All in percent. AP (the primary number), AUC and F1 are pooled over shots, mIoU is a mean over films, as in the release
of the BaSSL paper. The last shot of a video has the label 0 in these files although the film ends with it; it is
counted like any other shot.

The BaSSL paper (Table of BBC and OVSD) gives AP 39.98 on BBC and 28.68 on OVSD, for a model trained on MovieNet and
not fine-tuned. Features, shots and the choice of videos differ here: for orientation only, not comparable.
"""
CARD_TAIL = """\
## Limits

- It was trained on 25 videos: nature documentaries, and short and independent films, part of them animated. News,
  sport, talk and user video were not among them.
- The shipped model saw all of these videos. Their scores on them say nothing; only the tables above do.
- Annotators disagree about scenes. A good share of what counts as a mistake here is another reading of the film.
- It sees pictures only, no sound and no speech, and compares no shots that lie more than {apart} apart.
- It relies on shots being found about as TransNetV2 finds them; a detector that cuts much finer or coarser shifts
  what a number of shots means.
- Grey pixels have the hue 0, like red ones: a film in black and white is one without colour.
- The calibration is for VGG19 features of one frame a shot. With another encoder the order of the scores is what to
  trust first; the threshold may need adjusting.

## Making it again

    make default-model FEATURES=DIR

`DIR` holds one `.npz` a video, in a folder a set: `features` (N, D) float, `shots` (N, 2) int64 half-open frame
ranges, `scene_end` (N,) uint8, and `colour` (N, {hues}) float, the hue histograms, unless a folder `SET-hue` beside the
folder of a set has them as `features`. It writes the model and this card, and takes a core about half an
hour; stopped, it goes on with the evidence that it has kept in `data/evidence`. The same files on the same machine with
the same PyTorch give the same model, byte by byte.

## Licence

The weights are published under the licence of this project. They were learned from features that derive from
films, annotations (OVSD: CC BY-SA 3.0; BBC Planet Earth: its authors' terms) and ImageNet weights of VGG19, each
under its own terms, which apply to whoever uses those files.
"""


def training_facts(study: Study, number: int) -> dict[str, Any]:
    """How the model was made: videos, their counts by set, and measures, as plain JSON values."""

    def measured(how: str, result: Mapping[str, float]) -> dict[str, Any]:
        return {"how": how, **{name: round(result[name], 3) for name in ("ap", "auc", "f1", "miou")}}

    folds_made = min(number, len(study.videos))
    return {
        "trained": f"logistic regression over {token_width() - 1} kinds of evidence",
        "trained_on": [video.video_id for video in study.videos],
        "sets": [
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
            *(measured(f"{one} to {other}", evaluate(test.seen)) for (one, other), test in study.across.items()),
            measured("nested cross-validation", evaluate(study.nested.seen)),
        ],
    }
