"""``bassl report``: a page to look at the scenes of a video and to correct them."""

from __future__ import annotations

from bassl_cli import console
from bassl_cli.options import Results, with_settings
from pipelines.stages.settings import ReportSettings


@with_settings(spellings={"keyframes": "FOLDER"})
def report(settings: ReportSettings, sources: Results = []) -> None:
    """Make a page of a video's scenes, to view, correct and save them and to try thresholds.

    One HTML file for any browser, without a network. Several videos have a page each, and index.html shows them all.

    Examples: bassl report movie.mp4 --truth truth.csv, bassl report videos/
    """
    from pipelines.stages.report import index_path, report as stage, report_videos  # start-up time: NumPy, Jinja

    if len(sources) > 1:
        with console.videos_progress(len(sources)) as progress:
            results = report_videos(sources, settings, progress)
        wrote = any(result.status == "done" for result in results)
        index = console.display_path(index_path(sources, settings))
        written = f"{index} shows all pages" if wrote else "no page was made"
        console.print_summary(results, written)
        console.suggest_next("report", *sources)
        return
    (source,) = sources
    with console.stage_progress(source.name) as progress:
        result = stage(source, settings, progress)
    console.warn(*result.warnings)
    console.note(*result.notes)
    counts = f"{console.count(result.scenes, 'scene')}, {console.count(result.shots, 'shot')}"
    console.print_info(f"{counts}; wrote {console.display_path(result.output)}")
    console.suggest_next("report", source)
