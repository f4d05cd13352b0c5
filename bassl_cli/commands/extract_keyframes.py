"""``bassl extract-keyframes``: films in, one keyframe store for each out."""

from __future__ import annotations

from bassl_cli import console
from bassl_cli.options import Films, with_settings
from pipelines.stages.extract_keyframes import ExtractSettings, extract_keyframes as stage


@with_settings(flags={"workers": "--jobs -j"})
def extract_keyframes(
    films: Films, settings: ExtractSettings, as_json: console.Json = False, quiet: console.Quiet = False
) -> None:
    """Detect the shots of films and store the keyframes of each shot.

    Finished films are kept, so a stopped run continues.

    Example: bassl extract-keyframes movies/
    """
    with console.films_progress(quiet) as (start, progress):
        results = stage(films, settings, progress, start)
    console.show_films(results, ("frames", "shots"), f"stores in {settings.output}", as_json, quiet)
