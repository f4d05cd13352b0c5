"""The model card, and the training facts that the model file stores; both are written from a study."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipelines.datasets.sources import ShotFeatures
from pipelines.evaluation.bootstrap import evaluate, measure
from pipelines.evaluation.metrics import VideoScores
from pipelines.models.calibration import apply_calibration
from pipelines.models.encoders.shot_encoder import HUES
from pipelines.models.networks.cut_evidence import COLOR_WEIGHTS, LONGEST_SCENE, PACE_SECONDS, token_width
from pipelines.models.networks.relational import SUPPRESSION_WEIGHT
from pipelines.outputs.tables import percent
from recipes.default_model.fitting import DRAWS, FOLDS, PARTS, PENALTIES
from recipes.default_model.study import BASELINES, Study, Test, by_set, recursive_cuts, video_scores


def model_card(study: Study) -> str:
    """Write the model card in Markdown: what the model is, and all figures of a study."""
    videos = video_scores(study.videos, [apply_calibration(logits, study.calibration) for logits in study.logits])
    lines = [
        CARD_HEAD.format(
            kinds=token_width() - 1,
            penalty=study.penalty,
            among=", ".join(f"{p:g}" for p in PENALTIES),
            pace=", ".join(f"{s:g}" for s in PACE_SECONDS),
            colors=", ".join(f"{w:g}" for w in COLOR_WEIGHTS),
            loss=SUPPRESSION_WEIGHT,
            parts=f"{', '.join(map(str, PARTS[:-1]))} and {PARTS[-1]}",
            draws=DRAWS,
        ),
        "## Data",
        "",
        *_table(
            ["set", "videos", "shots", "scene ends", "share (AP of chance)"],
            [
                [*map(str, one.values()), percent(one["scene_ends"] / one["shots"])]
                for one in _counts({**by_set(study.videos), "all": study.videos})
            ],
        ),
        CARD_DATA.format(hues=HUES),
        "## Results",
        "",
        CARD_PROTOCOL,
        f"### Cross-validation over all {len(study.videos)} videos",
        "",
        f"{min(FOLDS, len(study.videos))} folds of whole videos. The kinds of evidence were chosen by tests within "
        "each set, that is, on these same videos; docs/default-model.md lists what was chosen and how.",
        "",
        *_table(
            ["", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5", "AP, mean of videos", "F1, mean of videos"],
            [_row("all", study.validation), _row("without color", study.colorless)],
        ),
        "",
        "The operating point was fitted on these logits, so F1 and mIoU are a little optimistic; AP and AUC do not "
        "depend on it.",
        "",
        "### Tests on unseen videos",
        "",
        "Trained on all videos of one set and tested on all videos of the other; and nested cross-validation. Penalty "
        "and operating point were chosen on the training videos. In brackets: 95 % intervals over 1,000 bootstrap "
        "draws of videos.",
        "",
        *_table(
            ["trained on", "tested on", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5", "penalty", "AP without color"],
            [
                *(_test_row(trained_on, tested_on, test) for (trained_on, tested_on), test in study.across.items()),
                _test_row("the other folds", f"each of {min(FOLDS, len(study.videos))}", study.nested),
            ],
        ),
        "",
        "### Short videos",
        "",
        "Nested cross-validation as above, but the held-out videos are divided into parts, and each is scored as a "
        "video of its own. Share: of the shots, how many end a scene; found: how many have a score of at least 0.5.",
        "",
        *_table(
            ["shots of a part", "parts", "share", "found", "AP", "precision", "recall", "F1 at 0.5"],
            _of_parts(study.nested.parts),
        ),
        "",
        "### Without learning",
        "",
        "Baselines on the same similarities. Left-right contrast: the mean similarity among the shots on each side of "
        "a cut, minus the mean similarity across it. Closest pair across: the greatest similarity of a shot before the "
        "cut and a shot after it, negated. GraphCut: `bassl baseline graph-cut`, on the whole video. The number of "
        "shots on a side is the best one for the row, chosen on its own labels, which favors the baselines. The AP of "
        "chance is the share of scene ends in the table of the data.",
        "",
        *_table(
            ["set", "baseline", "shots on a side", "AP", "AUC"],
            [
                [
                    name,
                    method,
                    "all" if BASELINES[method] is recursive_cuts else str(reach),
                    percent(result["ap"]),
                    percent(result["auc"]),
                ]
                for (name, method), (reach, result) in study.unlearned.items()
            ],
        ),
        "",
        "### Perturbed videos",
        "",
        "The same cross-validation, models and operating point, with the held-out videos changed as another encoder, "
        "another shot detector or another editor might change them (`recipes/default_model/perturbations.py`). The "
        "penalty was chosen with these perturbations too. They only approximate other inputs: the table shows how far "
        "the model depends on these features and shots, not how good it is with another encoder.",
        "",
        *_table(
            ["held-out videos", "AP", "AUC", "F1 at 0.5", "mIoU at 0.5"],
            [_row(name, result)[:5] for name, result in study.perturbed.items()],
        ),
        "",
        "## What a score means",
        "",
        "A score of 0.5 is the **operating point** with the best F1 in cross-validation; it is not a probability of "
        f"one half. `score = sigmoid({study.calibration.slope:.4f} * "
        f"(logit {-study.calibration.offset:+.4f}))`: the slope is that of Platt scaling, the offset puts the "
        "operating point at 0.5. Share of the shots that end a scene, by score, in cross-validation:",
        "",
        *_table(["score", "shots", "scene ends", "share"], _reliability(videos)),
        "",
        "Results with other thresholds:",
        "",
        *_table(["threshold", "precision", "recall", "F1", "mIoU"], _thresholds(videos)),
        "",
        CARD_TAIL.format(apart=LONGEST_SCENE, hues=HUES),
    ]
    return "\n".join(lines)


def _counts(sets: Mapping[str, Sequence[ShotFeatures]]) -> list[dict[str, Any]]:
    """Return for each set its name, and its numbers of videos, shots and scene ends."""
    return [
        {
            "set": name,
            "videos": len(videos),
            "shots": sum(len(video.scene_end) for video in videos),
            "scene_ends": sum(int(video.scene_end.sum()) for video in videos),
        }
        for name, videos in sets.items()
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def _row(name: str, result: Mapping[str, float]) -> list[str]:
    """Return a name, then AP, AUC, F1, mIoU, and the means over videos of AP and F1."""
    columns = ("ap", "auc", "f1", "miou", "video_ap", "video_f1")
    return [name, *(percent(result[column]) for column in columns)]


def _test_row(trained_on: str, tested_on: str, test: Test) -> list[str]:
    """Return a test with intervals over videos, if there are several."""
    measures = measure(test.videos)

    def cell(value: float | None, interval: tuple[float, float] | None) -> str:
        return percent(value) + (f" [{percent(interval[0])}, {percent(interval[1])}]" if interval else "")

    return [
        trained_on,
        tested_on,
        *(cell(measures[name].pooled, measures[name].interval) for name in ("ap", "auc", "f1")),
        cell(measures["miou"].videos, measures["miou"].videos_interval),
        ", ".join(f"{penalty:g}" for penalty in sorted(set(test.penalties))),
        percent(evaluate(test.colorless)["ap"]),
    ]


def _of_parts(parts: Sequence[VideoScores]) -> list[list[str]]:
    """Return a row for each length of parts."""
    rows = []
    for length in sorted({len(part.labels) for part in parts}):
        some = [part for part in parts if len(part.labels) == length]
        shots, result = length * len(some), evaluate(some)
        true = sum(int(part.labels.sum()) for part in some)
        predicted_ends = sum(int(part.decisions(0.5).sum()) for part in some)
        metrics = (percent(result.get(name)) for name in ("ap", "precision", "recall", "f1"))
        rows.append([str(length), str(len(some)), percent(true / shots), percent(predicted_ends / shots), *metrics])
    return rows


def _reliability(videos: Sequence[VideoScores]) -> list[list[str]]:
    scores = np.concatenate([video.scores[video.is_counted] for video in videos])
    labels = np.concatenate([video.labels[video.is_counted] for video in videos])
    edges, rows = np.linspace(0, 1, 11), []
    counts, ends = (np.histogram(some, edges)[0] for some in (scores, scores[labels == 1]))
    for low, high, shots, true in zip(edges, edges[1:], counts, ends, strict=False):
        share = f"{100 * true / shots:.0f} %" if shots else "-"
        rows.append([f"{low:.1f} to {high:.1f}", str(shots), str(true), share])
    return rows


def _thresholds(videos: Sequence[VideoScores]) -> list[list[str]]:
    rows = []
    for threshold in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        result = evaluate(videos, threshold)
        rows.append([f"{threshold:.1f}", *(percent(result[name]) for name in ("precision", "recall", "f1", "miou"))])
    return rows


CARD_HEAD = """\
# Model card: the built-in model

`make default-model` writes this file; do not edit it by hand.

## What it is

`relational.safetensors` gives each shot of a video a score: the higher, the more likely a scene ends with this shot.
It reads only relations between shots, never the features themselves, and so works with any shot encoder. At each
cut (the boundary between two consecutive shots) a linear model weighs {kinds} kinds of evidence:

- the cost of the cut in a graph of the shots: normalized cuts of the whole video and of the surroundings, at several
  scales of time;
- the contrast: how much more similar shots on the same side are than shots across the cut;
- recurrence: how similar the shots after the cut are to shots before it;
- the number of links between similar shots that the cut severs;
- the posterior probability of a scene end here over all divisions of the video into scenes, for several models of a
  scene;
- the lengths of the shots next to the cut;
- the number of shots within {pace} seconds of it.

All but the last two are computed from similarities of shots. The content features of a shot, at unit length, are
joined with the square root of the hue histogram of its middle frame, at the weights {colors}; each kind of
evidence is the mean over these weights. Similarities are taken about the video's mean and about the mean of the 64
shots on either side. Two neighboring cuts are rarely both scene ends, so the logit of a cut is reduced by up to
{loss:g} if a cut at most two away has a higher one. A video without color is scored by content and lengths only;
the tables below show the loss.

Fitting: logistic regression on the videos, and on their parts of {parts} shots each
as videos of their own, with balanced classes and a penalty of {penalty:g} on the squared weights, for evidence
scaled to standard deviation 1; the optimum is exact (Newton's method). The penalty was chosen from {among}
on the same videos: the one with the best mean AP in cross-validation, with the held-out videos unchanged
and in eleven perturbations, {draws} draws of each.
"""
CARD_DATA = """
The model was trained and measured on per-shot features of public data sets, in the layout that `data/README.md`
describes: `bbc`, BBC Planet Earth (Baraldi et al. 2015, labels of annotator 0), 11 episodes; and `ovsd`, Open Video
Scene Detection (Rotman et al. 2016, CC BY-SA 3.0), 14 of its 21 videos. Features: VGG19 (ImageNet weights), globally
pooled, 512 dimensions, and OpenCV's hue histogram in {hues} bins, both of the middle frame of each shot. Shots were
detected by TransNetV2; 25 frames per second are assumed. The package contains neither videos nor features, only the
weights.
"""
CARD_PROTOCOL = """\
All figures are in percent. AP (the primary metric), AUC and F1 are pooled over shots; mIoU is the mean over videos,
as in the release of the BaSSL paper. In these files the last shot of a video has the label 0, although the video
ends with it; it is counted like any other shot.

The BaSSL paper (Table of BBC and OVSD) gives AP 39.98 on BBC and 28.68 on OVSD, for a model trained on MovieNet and
not fine-tuned. Its features, shots and choice of videos differ, so these figures are not comparable with those
below.
"""
CARD_TAIL = """\
## Limits

- It was trained on 25 videos: nature documentaries, and short and independent videos, some of them animated. There was
  no news, sport, talk or user video.
- The shipped model was trained on all of these videos. How it scores them says nothing; only the tables above do.
- Annotators disagree about scenes. Many of the errors counted here are a different reading of the video.
- It uses images only, no sound and no speech, and compares no shots that are more than {apart} shots apart.
- It expects shots about as TransNetV2 detects them. With a detector that finds many more or fewer shots, evidence that
  is counted in shots changes its meaning.
- Gray pixels have hue 0, like red ones, so a black-and-white video counts as a video without color.
- The calibration is for VGG19 features of one frame per shot. With another encoder the order of the scores is more
  reliable than their values; the threshold may need adjusting.

## How to make it again

    make default-model FEATURES=DIR

`DIR` has one folder per data set, with one `.npz` file per video: `features` (N, D) float, `shots` (N, 2) int64
half-open frame ranges, `scene_end` (N,) uint8, and `color` (N, {hues}) float, the hue histograms. Instead of
`color` there may be a folder `SET-hue` beside the folder `SET`, whose files have the histograms as `features`. The
command writes the model and this card in 10 to 30 minutes on one core. The same files give the same model, byte for
byte, on the same machine with the same PyTorch.

## License

The weights are published under the license of this project. They were learned from features that derive from videos,
annotations (OVSD: CC BY-SA 3.0; BBC Planet Earth: its authors' terms) and ImageNet weights of VGG19. Each of these
has its own terms, which apply to whoever uses those files.
"""


def training_facts(study: Study) -> dict[str, Any]:
    """Return how the model was made: videos, their counts by set, and measures, as plain JSON values."""

    def measures_entry(procedure: str, result: Mapping[str, float]) -> dict[str, Any]:
        return {"how": procedure, **{name: round(result[name], 3) for name in ("ap", "auc", "f1", "miou")}}

    return {
        "trained": f"logistic regression over {token_width() - 1} kinds of evidence",
        "trained_on": [video.video_id for video in study.videos],
        "sets": _counts(by_set(study.videos)),
        "measured": [
            measures_entry(f"{min(FOLDS, len(study.videos))}-fold cross-validation", study.validation),
            *(
                measures_entry(f"{one} to {other}", evaluate(test.videos))
                for (one, other), test in study.across.items()
            ),
            measures_entry("nested cross-validation", evaluate(study.nested.videos)),
        ],
    }
