"""Names of scenes from their content: words and credits."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from pipelines.scenes import SEGMENTS, Scene, SceneData

S = TypeVar("S", bound=SceneData)

_MOST_TERMS, _LONGEST = 3, 40
_SHARED = 3  # scenes with one name: too many to tell them apart
_CREDITS = 0.9  # share of a scene that is credits
_FEWEST_WORDS = 10  # of a text whose language can be told
_STOP_WORDS = 0.2  # share of the words of a text: about half are in the list of their language, few in others
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")  # Thai, Lao, Japanese and Chinese


def with_automatic_names(scenes: S, made_again: bool = True) -> S:
    """Name each scene that neither a person nor a program named: as credits, if it is almost only credits, or else by
    up to three terms that distinguish its words from the other scenes, by TF-IDF (Spärck Jones, A statistical
    interpretation of term specificity, 1972), without the stop words of the language. A name from words that three
    scenes would share gets more terms, or else is left out. Without ``made_again`` names from words stay."""
    said = [list(_terms(" ".join(line.text for line in scenes.lines_of(scene)))) for scene in scenes.scenes]
    # A term is written as inside a sentence if it ever occurs there: lower case sorts after upper case.
    written = {term.casefold(): term for term in sorted({term for terms in said for term in terms})}
    counts = [Counter(term.casefold() for term in terms) for terms in said]
    scenes_with = Counter(term for times in counts for term in times)
    spoken, stop = sum(map(bool, counts)), _stop_words(sum(counts, Counter()))
    credits = sorted((part for part in scenes.segments if part.is_credits), key=lambda part: part.start)
    starts = [part.start for part in credits]
    names: list[Scene] = []
    further: list[list[str]] = []  # terms beyond the name, for each scene that is named by words now
    for scene, times in zip(scenes.scenes, counts, strict=True):
        rest: list[str] = []
        if scene.lacks_name and (made_again or scene.named_by != "words"):
            terms = {term: n for term, n in times.items() if not _is_stop_word(term, stop)}
            weights = {term: n * math.log(spoken / scenes_with[term]) for term, n in terms.items()}
            best = sorted((term for term in weights if weights[term] > 0), key=lambda t: (-weights[t], -len(t), t))
            best = best[:_MOST_TERMS]
            used = sum(weights[term] >= weights[best[0]] / 2 for term in best)
            rest = [written[term] for term in best[used:]]
            name = ", ".join(written[term] for term in best[:used]) or None
            scene = replace(scene, name=name, named_by=name and "words")
            # Only credits that contain the middle of a scene can be most of it; credits do not overlap.
            begun = bisect_right(starts, (scene.start + scene.end) / 2)
            for part in credits[max(0, begun - 1) : begun]:
                overlap = min(part.end, scene.end) - max(part.start, scene.start)
                if overlap >= _CREDITS * (scene.end - scene.start):
                    scene = replace(scene, name=SEGMENTS[part.kind].capitalize(), named_by="credits")
        names.append(scene)
        further.append(rest)
    return replace(scenes, scenes=tuple(_distinct(names, further)))


def _distinct(scenes: Sequence[Scene], further: Sequence[Sequence[str]]) -> Iterator[Scene]:
    """Yield scenes of which no three share a name from words."""
    shared = {name for name, n in Counter(scene.name for scene in scenes).items() if n >= _SHARED}
    longer = []
    for scene, terms in zip(scenes, further, strict=True):
        is_shared = scene.name in shared and scene.named_by == "words"
        longer.append(replace(scene, name=", ".join([str(scene.name), *terms])) if is_shared else scene)
    totals = Counter(scene.name for scene in longer)
    for scene in longer:
        is_shared = scene.named_by == "words" and totals[scene.name] >= _SHARED
        yield replace(scene, name=None, named_by=None) if is_shared else scene


def carried_names(before: Sequence[Scene], scenes: Sequence[Scene]) -> list[Scene]:
    """Return scenes with the names of earlier ones: a name stays until more than half as many shots as its scene had
    joined or left it. Of two equal halves of a scene neither has its name."""
    starts, named = [scene.start_shot for scene in scenes], list(scenes)

    def change(old: Scene, new: Scene) -> int:
        return abs(new.start_shot - old.start_shot) + abs(new.end_shot - old.end_shot)

    for old in before:
        first, end = max(0, bisect_right(starts, old.start_shot) - 1), bisect_left(starts, old.end_shot)
        most = (old.end_shot - old.start_shot) // 2
        same = [index for index in range(first, end) if change(old, scenes[index]) <= most]
        if old.name and len(same) == 1 and (scenes[same[0]].name is None or not change(old, scenes[same[0]])):
            named[same[0]] = replace(scenes[same[0]], name=old.name, named_by=old.named_by)
    return named


class _Signs(dict[int, str]):
    """A table for `str.translate` in which only letters, the marks that belong to them, and apostrophes stay."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        is_kept = unicodedata.category(sign)[0] in "LM" or sign in "'\u200c\u200d"
        self[code] = sign if is_kept else "'" if sign == "\u2019" else " "
        return self[code]


_SIGNS = _Signs()


def _terms(text: str) -> Iterator[str]:
    """Yield words in Unicode's form NFC: letters with their marks. In scripts without spaces between words, pairs of
    characters."""
    for word in text.translate(_SIGNS).split():
        if _UNSPACED.search(word):
            characters: list[str] = []
            for sign in word:
                if characters and unicodedata.category(sign)[0] == "M":
                    characters[-1] += sign
                else:
                    characters.append(sign)
            yield from map("".join, pairwise(characters))
        elif len(word) <= _LONGEST and (word := unicodedata.normalize("NFC", word).strip("'")):
            yield word


def _stop_words(counts: Counter[str]) -> frozenset[str]:
    """Return the stop words of a text's language: the one whose list has most of its words; empty if none has many.
    Tags of files and tracks are not asked: they are often missing or wrong, and few sentences tell the language."""
    if counts.total() < _FEWEST_WORDS:
        return frozenset()
    from stopwordsiso import langs, stopwords  # start-up time; only for subtitles

    occurrences = Counter(counts)
    for term, n in counts.items():
        if _UNSPACED.search(term):
            occurrences.update(dict.fromkeys(term, n))
    lists = {language: stopwords(language) for language in sorted(langs())}
    shares = {language: sum(occurrences[word] for word in words) for language, words in lists.items()}
    best = max(shares, key=lambda language: (shares[language], -len(lists[language])))
    return frozenset(lists[best] if shares[best] >= _STOP_WORDS * counts.total() else ())


def _is_stop_word(term: str, stop: frozenset[str]) -> bool:
    """Return whether a term says nothing about a scene: a stop word, also with an ending as in «they'd», or a pair of
    characters of which one is a stop word; and what is shorter than three letters."""
    if _UNSPACED.search(term):
        return term in stop or not stop.isdisjoint(term)
    return len(term) < 3 or term in stop or all(part in stop for part in term.split("'"))
