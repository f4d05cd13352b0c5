"""``bassl extract-sound``: videos in, one file of sound features for each out."""

from __future__ import annotations

from bassl_cli import console
from bassl_cli.options import Videos, with_settings
from pipelines.stages.settings import SoundSettings
from pipelines.video.inputs import find_videos


@with_settings()
def extract_sound(videos: Videos, settings: SoundSettings) -> None:
    """Store features of the sound of each shot: mean and standard deviation of log-mel energies.

    For bassl finetune --sound data/sound, and for the systems that take several kinds of features: bassl baseline lgss
    --extra data/sound

    Example: bassl extract-sound movies/
    """
    from pipelines.stages.extract_sound import extract_sound as stage  # start-up time: NumPy, PyAV

    videos = find_videos(videos)
    with console.videos_progress(len(videos)) as progress:
        results = stage(videos, settings, progress)
    wrote = any(result.status == "done" for result in results)
    console.print_summary(
        results, f"wrote {console.display_path(settings.run.output)}" if wrote else "nothing to write"
    )
