"""``bassl extract-keyframes``: videos in, one keyframe store for each out."""

from __future__ import annotations

from bassl_cli import console
from bassl_cli.options import Videos, with_settings
from pipelines.stages.extract_keyframes import ExtractSettings, extract_keyframes as stage
from pipelines.video.inputs import find_videos


@with_settings()
def extract_keyframes(videos: Videos, settings: ExtractSettings, as_json: console.Json = False) -> None:
    """Detect the shots of videos and store the keyframes of each shot.

    Finished videos are kept, so a stopped run continues.

    Example: bassl extract-keyframes movies/
    """
    videos = find_videos(videos)
    with console.videos_progress(len(videos)) as progress:
        results = stage(videos, settings, progress)
    console.show_videos(results, ("frames", "shots"), f"stores in {console.display_path(settings.run.output)}", as_json)
    if not as_json:
        console.suggest_next("extract-keyframes", settings.run.output)
