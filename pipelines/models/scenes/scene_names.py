"""Names of scenes from their content: words and credits."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from pipelines.scenes import SEGMENTS, SceneData

S = TypeVar("S", bound=SceneData)

_MOST_TERMS = 3
_CREDITS = 0.9  # share of a scene that is credits
_WORD = re.compile(r"[^\W\d_]{2,30}(?:['’][^\W\d_]{1,30})?")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")  # Thai, Lao, Japanese and Chinese


def with_automatic_names(scenes: S) -> S:
    """Name each scene that neither a person nor a program named: as credits, if it is almost only credits, or else by
    up to three terms that distinguish its words from the other scenes, by TF-IDF (Spärck Jones, A statistical
    interpretation of term specificity, 1972). Stop words occur in most scenes, so it needs no list of them and works in
    any language."""
    said = [list(_terms(" ".join(line.text for line in scenes.lines_of(scene)))) for scene in scenes.scenes]
    # A term is written as inside a sentence if it ever occurs there: lower case sorts after upper case.
    written = {term.casefold(): term for term in sorted({term for terms in said for term in terms})}
    counts = [Counter(term.casefold() for term in terms) for terms in said]
    scenes_with = Counter(term for times in counts for term in times)
    spoken, scenes_with_names = sum(map(bool, counts)), []
    for scene, times in zip(scenes.scenes, counts, strict=True):
        if scene.lacks_name:
            weights = {term: n * math.log(spoken / scenes_with[term]) for term, n in times.items()}
            least = max(weights.values(), default=0.0) / 2
            best = sorted(weights, key=lambda term: (-weights[term], -len(term), term))[:_MOST_TERMS]
            name = ", ".join(written[term] for term in best if weights[term] >= least > 0) or None
            scene = replace(scene, name=name, named_by=name and "words")
            for part in scenes.segments:
                overlap = min(part.end, scene.end) - max(part.start, scene.start)
                if part.is_credits and overlap >= _CREDITS * (scene.end - scene.start):
                    scene = replace(scene, name=SEGMENTS[part.kind].capitalize(), named_by="credits")
        scenes_with_names.append(scene)
    return replace(scenes, scenes=tuple(scenes_with_names))


def _terms(text: str) -> Iterator[str]:
    """Yield words of three letters or more; in scripts without spaces between words, pairs of characters."""
    for word in _WORD.findall(text):
        if _UNSPACED.search(word):
            yield from map("".join, pairwise(word))
        elif len(word) > 2:
            yield word
