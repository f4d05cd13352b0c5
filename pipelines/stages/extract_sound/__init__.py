"""Extracting features of sound: films in, a feature store beside those of the shot encoders out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.progress import FilmProgress
from pipelines.stages.extract_sound.settings import SoundResult, SoundSettings

__all__ = ["SoundResult", "SoundSettings", "extract_sound"]


def extract_sound(
    inputs: Sequence[Path | str],
    settings: SoundSettings = SoundSettings(),
    progress: Callable[[FilmProgress[SoundResult]], None] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> list[SoundResult]:
    """Extract features of the sound of films (files, folders and glob patterns): mean and standard deviation of 64
    log-mel energies over each shot; one result for each film, in the order of the films' names.

    Films are found in the index by their ids, which `extract_keyframes` makes of their names. Finished films are saved
    every minute, and are not done again; a film without sound has failed. ``on_start`` is called with the number of
    films, ``progress`` with the progress of each, from several threads. Raises BasslError for inputs, an index or a
    store that cannot be used at all.
    """
    from pipelines.stages.extract_sound import running  # start-up time: numpy, h5py and av

    return running.run(inputs, settings, progress, on_start)
