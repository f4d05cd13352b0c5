"""What the times of subtitles tell about scene ends, and what the term of `pipelines.models.speech` adds.

    python benchmarks/speech.py movienet_timing.npz

The file has shots, scene ends and times of subtitles of videos, without images (arrays `ID/shots`, in frames,
`ID/scene_end`, `ID/cues`, in seconds, `ID/frame_rate`, `ID/split`). Regressions are fitted on the training split, and
thresholds on the validation split; figures are of the test split, with 95 % intervals by bootstrap over videos.

As there are no images, visual evidence is simulated: a regression on the lengths of the shots around a cut, which every
visual model sees too, plus normal noise with another mean at scene ends, such that AP is 15 to 50. Given lengths and
labels, that noise knows nothing of speech, which is optimistic. Takes some minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from measure import command_line, save
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from pipelines.evaluation.bootstrap import compare, flatten, measure
from pipelines.evaluation.metrics import VideoScores, average_precision
from pipelines.models.calibration import best_f1_threshold
from pipelines.models.speech import NEARBY_SECONDS, speech_evidence, speech_logits
from pipelines.outputs.tables import TextTable, markdown, percent
from pipelines.scenes import Line

STRENGTHS = (0.15, 0.2, 0.3, 0.4, 0.5)  # AP of the simulated visual evidence
CLOCKS = (1.0, -1.0, 2.0, -2.0)  # seconds that are added to the times of subtitles
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Video:
    name: str
    shots: Numbers  # (N, 2) in seconds
    labels: NDArray[np.uint8]  # (N - 1,) of the cuts
    lines: Sequence[Line]


def read_timing(path: Path) -> dict[str, list[Video]]:
    """The videos by split."""
    splits: dict[str, list[Video]] = {"train": [], "val": [], "test": []}
    with np.load(path) as arrays:
        for name in sorted({key.split("/")[0] for key in arrays.files}):
            shots = arrays[f"{name}/shots"] / arrays[f"{name}/frame_rate"].item()
            lines = [Line(float(start), float(end), "") for start, end in arrays[f"{name}/cues"]]
            video = Video(name, shots, arrays[f"{name}/scene_end"][:-1], lines)
            splits[str(arrays[f"{name}/split"])].append(video)
    return splits


def moved(video: Video, seconds: float) -> Numbers:
    """The term of a video's cuts with a subtitle clock that is off."""
    return speech_logits(video.shots, [Line(line.start + seconds, line.end + seconds, "") for line in video.lines])[:-1]


def plain_evidence(video: Video) -> Numbers:
    """(cuts, 5): logarithm of the silence around a cut, whether the cut is inside an utterance, share of speech in 10 s
    before and after, and rank of the silence among the silences of cuts nearby."""
    cuts = video.shots[:-1, 1]
    starts, ends = np.array([(line.start, line.end) for line in video.lines]).T
    ends = np.maximum.accumulate(ends)
    begun = np.searchsorted(starts, cuts, "right")
    last_end, next_start = np.append(video.shots[0, 0], ends)[begun], np.append(starts, video.shots[-1, 1])[begun]
    inside = last_end > cuts
    silence = np.where(inside, 0, np.maximum(next_start - last_end, 0))

    def spoken(start: float) -> float:
        return float(np.maximum(np.minimum(ends, start + 10) - np.maximum(starts, start), 0).sum()) / 10

    shares = np.array([(spoken(cut - 10), spoken(cut)) for cut in cuts]).T
    nearby = [silence[np.abs(cuts - cut) <= NEARBY_SECONDS] for cut in cuts]
    rank = [(others < own).mean() for own, others in zip(silence, nearby, strict=True)]
    return np.stack([np.log1p(silence), inside, *shares, rank], axis=1)


def lengths(video: Video) -> Numbers:
    """(cuts, 8): logarithm of the lengths of four shots on either side, relative to the video's median."""
    seconds = np.log(np.maximum(np.diff(video.shots)[:, 0], 0.2))
    padded = np.pad(seconds - np.median(seconds), (3, 3), mode="edge")
    return np.stack([padded[k : k + len(video.labels)] for k in range(8)], axis=1)


def regress(train: Sequence[Numbers], labels: Numbers, videos: Sequence[Numbers]) -> list[Numbers]:
    """Logits of videos by a logistic regression of labels on evidence."""
    fitted = LogisticRegression(max_iter=1000).fit(np.concatenate(train), labels)
    return [fitted.decision_function(video) for video in videos]


def scored(videos: Sequence[Video], logits: Sequence[Numbers]) -> list[VideoScores]:
    return [
        VideoScores(video.labels, values, video.shots[:-1], video.shots[:-1], video=video.name)
        for video, values in zip(videos, logits, strict=True)
    ]


def added(visual: Sequence[Numbers], term: Sequence[Numbers]) -> list[Numbers]:
    return [first + second for first, second in zip(visual, term, strict=True)]


def simulated(videos: Sequence[Video], base: Sequence[Numbers], distance: float) -> list[Numbers]:
    """Visual logits: the base, and the evidence of a normal variable with another mean at scene ends."""
    noise = [np.random.default_rng(k).normal(size=len(video.labels)) for k, video in enumerate(videos)]
    return [
        logits + distance * (random + distance * video.labels - distance / 2)
        for video, logits, random in zip(videos, base, noise, strict=True)
    ]


def distance_for(videos: Sequence[Video], base: Sequence[Numbers], strength: float) -> float:
    """The distance of means at which the simulated visual evidence has this AP."""
    labels, low, high = np.concatenate([video.labels for video in videos]), 0.0, 5.0
    for _ in range(20):
        middle = (low + high) / 2
        is_weaker = average_precision(labels, np.concatenate(simulated(videos, base, middle))) < strength
        low, high = (middle, high) if is_weaker else (low, middle)
    return low


def with_interval(figures: dict[str, Any], metric: str) -> str:
    low, high = figures[metric]["interval"]
    return f"{percent(figures[metric]['pooled'])} [{percent(low)}, {percent(high)}]"


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("timing", type=Path, help="times of shots, scene ends and subtitles, an .npz file")
    splits = read_timing(parser.parse_args().timing)
    train, val, test = splits["train"], splits["val"], splits["test"]
    labels = np.concatenate([video.labels for video in train])
    terms = {"term": [moved(video, 0.0) for video in test]}
    for name, evidence in (
        ("its two values, fitted", lambda video: speech_evidence(video.shots, video.lines)),
        ("silence, inside, shares and rank, fitted", plain_evidence),
    ):
        logits = regress([evidence(video) for video in train], labels, [evidence(video) for video in test])
        terms[name] = [values - values.mean() for values in logits]
    base = regress([lengths(video) for video in train], labels, [lengths(video) for video in (*val, *test)])
    base_val, base_test = base[: len(val)], base[len(val) :]
    alone = {name: flatten(measure(scored(test, term))) for name, term in terms.items()}
    alone["shot lengths, fitted"] = flatten(measure(scored(test, base_test)))
    alone["shot lengths and term"] = flatten(measure(scored(test, added(base_test, terms["term"]))))
    rows = [(name, with_interval(figures, "ap")) for name, figures in alone.items()]
    chance = float(np.concatenate([video.labels for video in test]).mean())
    print(markdown(TextTable(("alone", "AP"), (("chance", percent(chance)), *rows))))

    terms |= {f"clock {seconds:+g} s": [moved(video, seconds) for video in test] for seconds in CLOCKS}
    others = [replace(video, lines=test[k - 1].lines) for k, video in enumerate(test)]
    terms["subtitles of another video"] = [moved(video, 0.0) for video in others]
    terms["twice the term"] = [2 * term for term in terms["term"]]
    gains: dict[str, dict[str, Any]] = {name: {} for name in terms}
    for strength in STRENGTHS:
        distance = distance_for(test, base_test, strength)
        on_val = np.concatenate(simulated(val, base_val, distance))
        threshold = best_f1_threshold(on_val, np.concatenate([video.labels for video in val]))
        visual = simulated(test, base_test, distance)
        for name, term in terms.items():
            pair = scored(test, added(visual, term)), scored(test, visual)
            gains[name][percent(strength)] = flatten(compare(*pair, threshold))
    for metric in ("ap", "f1"):
        rows = [(name, *(with_interval(of, metric) for of in by.values())) for name, by in gains.items()]
        header = f"{metric.upper()} added to visual AP", *map(percent, STRENGTHS)
        print(markdown(TextTable(header, tuple(rows))))
    save("speech", {"chance": chance, "alone": alone, "added": gains})


if __name__ == "__main__":
    main()
