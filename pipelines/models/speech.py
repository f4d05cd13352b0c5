"""What speech says about scene ends: a term for the logit of each cut, from the times of subtitles.

The term is large if speech changes at the cut (much of it on one side, little on the other), and if it is quieter
around the cut than around its neighbors. Only shares of speech in windows count, so a subtitle clock that is a second
off changes little. docs/speech.md has the measurements behind the constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipelines.scenes import Line, Shot

CHANGE_SECONDS = (5.0, 10.0, 20.0, 40.0)  # lengths of the windows on either side of a cut
QUIET_SECONDS = 4.0  # on either side of a cut, in which it is more or less quiet
NEARBY_SECONDS = 120.0  # how far a cut's neighbors are
CHANGE_WEIGHT, QUIET_WEIGHT = 1.0, 0.5  # half of what fits best, in case speech and shots tell the same
LEAST_SPEECH = 0.1  # share of the video's time; with less, the lines are not its dialogue

Numbers = NDArray[np.float64]


def with_speech(shots: Sequence[Shot], lines: Sequence[Line]) -> tuple[Shot, ...]:
    """The shots of a video, with `speech_logits` added to the logits of their scores."""
    logits = speech_logits(np.array([(shot.start, shot.end) for shot in shots]), lines)
    if not logits.any():
        return tuple(shots)
    scores = np.array([shot.score for shot in shots])
    rising = scores * np.exp(logits)
    scores = rising / (rising + 1 - scores)
    return tuple(replace(shot, score=float(score)) for shot, score in zip(shots, scores, strict=True))


def speech_logits(shots: Numbers, lines: Sequence[Line]) -> Numbers:
    """The term for the logit that a scene ends with each shot, (N,); its mean over the cuts of the video is 0.

    Args:
        shots: (N, 2) half-open ranges in seconds, in order, N >= 1.
        lines: subtitles, by their start.
    Returns: zeros if there is speech in less than `LEAST_SPEECH` of the time; the last shot, without a cut, has 0.
    """
    logits = np.zeros(len(shots))
    spoken = _speech(lines, shots[0, 0], shots[-1, 1])[1][-1]
    if len(shots) > 1 and spoken >= LEAST_SPEECH * (shots[-1, 1] - shots[0, 0]):
        term = speech_evidence(shots, lines) @ (CHANGE_WEIGHT, QUIET_WEIGHT)
        logits[:-1] = term - term.mean()
    return logits


def speech_evidence(shots: Numbers, lines: Sequence[Line]) -> Numbers:
    """(N - 1, 2) from 0 to 1: how much the share of speech changes at each cut, a mean over windows on either side of
    it; and how quiet it is around the cut, as a rank among the cuts nearby. Arguments as for `speech_logits`."""
    first, stop = shots[0, 0], shots[-1, 1]
    cuts = (shots[:-1, 1] + shots[1:, 0]) / 2
    times, spoken = _speech(lines, first, stop)

    def share(starts: Numbers, ends: Numbers) -> Numbers:
        starts, ends = np.maximum(starts, first), np.minimum(ends, stop)
        seconds = np.interp(ends, times, spoken) - np.interp(starts, times, spoken)
        return np.round(seconds / np.maximum(ends - starts, 0.001), 6)  # rounded so that equal shares are ties

    changes = [np.abs(share(cuts, cuts + seconds) - share(cuts - seconds, cuts)) for seconds in CHANGE_SECONDS]
    loud = share(cuts - QUIET_SECONDS, cuts + QUIET_SECONDS)
    starts = np.searchsorted(cuts, cuts - NEARBY_SECONDS)
    ends = np.searchsorted(cuts, cuts + NEARBY_SECONDS, "right")
    nearby = [loud[start:end] for start, end in zip(starts, ends, strict=True)]
    quiet = [((others > own).mean() + (others >= own).mean()) / 2 for own, others in zip(loud, nearby, strict=True)]
    return np.stack([np.mean(changes, axis=0), quiet], axis=1)


def _speech(lines: Sequence[Line], first: float, stop: float) -> tuple[Numbers, Numbers]:
    """Times at which speech begins or ends, in order, and the seconds of speech until each; at least one of them."""
    times, spoken = [first], [0.0]
    for line in lines:
        start, end = max(line.start, times[-1]), min(line.end, stop)
        if end > start:
            times += [start, end]
            spoken += [spoken[-1], spoken[-1] + end - start]
    return np.array(times), np.array(spoken)
