"""``bassl learn``: a model of one's own, from videos whose scenes were corrected by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bassl_cli import console
from bassl_cli.options import Results, with_settings
from pipelines.outputs.tables import percent
from pipelines.stages.settings import LearnSettings

if TYPE_CHECKING:  # start-up time: NumPy
    from pipelines.stages.learn import LearnResult


@with_settings()
def learn(settings: LearnSettings, sources: Results = [], as_json: console.Json = False) -> None:
    """Learn from videos whose scenes were corrected, and write a model for predict.

    Correct all scenes of three videos or more of one kind, such as episodes of a series; all of them count as right.

    Examples: bassl learn videos/, then bassl predict new.mp4 --model my.safetensors
    """
    from pipelines.stages.learn import learn as stage  # start-up time: NumPy

    with console.videos_progress(len(sources)) as progress:
        result = stage(sources, settings, progress)
    if as_json:
        console.print_json(result)
    else:
        for line in _lines(result):
            console.print_info(line)
    console.print_summary(result.videos, f"wrote {console.display_path(result.output)}")
    if not as_json:
        console.suggest_next("learn", result.output)


def _lines(result: LearnResult) -> list[str]:
    """What was learned, and how well, on videos left out in turn."""
    learned = sum(video.status != "failed" for video in result.videos)
    source = f"{console.count(learned, 'video')} with {console.count(result.scene_ends, 'scene end')}"
    if not result.measured:
        return [f"{source}: the operating point of the built-in model is adapted; its weights need more videos"]
    ap, f1, ap_before, f1_before = (percent(result.measured[name]) for name in ("ap", "f1", "ap_before", "f1_before"))
    if result.strength is not None:
        first = f"learned from {source}"
    elif result.adapted:
        first = f"{source}: no better than the built-in weights, which stay; only the operating point is adapted"
    else:
        first = f"{source}: no better than the built-in model, which is written unchanged"
    return [
        first,
        f"on videos left out in turn, built-in and own model: AP {ap_before} and {ap}, F1 {f1_before} and {f1}",
    ]
