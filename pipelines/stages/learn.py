"""Models adapted to a user's videos: the built-in model, pulled toward scenes that were corrected by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from pipelines.datasets.matching import match_annotation
from pipelines.datasets.sources import read_scenes_of_folder, read_scenes_of_video
from pipelines.errors import BasslError
from pipelines.files import as_paths, check_output
from pipelines.models.boundary import save_boundary_model
from pipelines.models.networks.relational import shot_tokens
from pipelines.models.opening import open_model
from pipelines.options import resolve_settings
from pipelines.outputs.images import read_shots
from pipelines.processes import cores
from pipelines.progress import ReportVideo, VideoResult
from pipelines.results.opening import open_scenes
from pipelines.results.replacing import check_corrected
from pipelines.scenes import SceneData, group_shots
from pipelines.settings import Reading
from pipelines.stages.predict.model import model_reader_settings
from pipelines.stages.predict.scoring import LoadedModel, load
from pipelines.stages.settings import LearnSettings, PredictSettings
from pipelines.training.relational_fit import LabeledTokens, adapt_model
from pipelines.video.inputs import fingerprint, safe_id
from pipelines.video.shots import ReaderSettings
from pipelines.video_jobs import VideoTask, run_video_tasks

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import LearnOptions


@dataclass(frozen=True)
class LearnResult:
    """Model that learned from a user's videos."""

    output: Path
    videos: tuple[VideoResult, ...]  # in the order of the sources; those that failed have the reason
    scene_ends: int  # in the videos that it learned from
    strength: float | None  # number of scene ends that the built-in weights count as; None: they stay as they are
    adapted: bool  # whether it finds another number of scene ends than the built-in model
    # on each video left out in turn: `ap` (mean) and `f1` (of all shots), and `ap_before` and `f1_before`; or empty
    measured: Mapping[str, float]


def learn(
    sources: Path | str | Sequence[Path | str],
    settings: LearnSettings | None = None,
    progress: ReportVideo | None = None,
    **options: Unpack[LearnOptions],
) -> LearnResult:
    """Learn from the corrected scenes of videos, and write a model file for `predict`.

    ``sources``: ``scenes.json`` files, or videos with a result, each of another video. A prediction must have been
    corrected by hand, by a cut or a name; all its scenes then count as right. With ``labels`` the scenes of another
    file do, in any format that `score` reads. The result of a video that failed has the reason. Raises BasslError if
    the model cannot be written or exists, or all videos failed; ValueError for another output than a .safetensors.

    Example::

        result = bassl.learn(["a.scenes.json", "b.scenes.json", "c.scenes.json"], output="my.safetensors")
        print(result.measured)
        bassl.predict("d.mp4", model="my.safetensors")
    """
    settings, paths = resolve_settings(LearnSettings, settings, options), list(dict.fromkeys(as_paths(sources)))
    if not paths:
        raise BasslError("no videos to learn from; pass videos or scenes.json files")
    if settings.labels is not None and not settings.labels.is_dir() and len(paths) > 1:
        raise BasslError(f"{settings.labels}: has the scenes of one video; pass a folder of labels for {len(paths)}")
    check_output(settings.output, [*paths, settings.labels], settings.overwrite)
    opened = open_model()
    loaded, reader_settings = load(opened, PredictSettings()), model_reader_settings(opened, Reading())
    videos: list[LabeledTokens] = []
    sources_by_fingerprint: dict[str | None, Path] = {}

    def read(task: VideoTask[LearnSettings], report: ReportVideo) -> VideoResult:
        result, identity, labeled = _read(loaded, reader_settings, task, report)
        if (other := sources_by_fingerprint.setdefault(identity, task.video)) != task.video:
            raise BasslError(f"{task.video}: has the scenes of the same video as {other}; leave one of them out")
        videos.append(labeled)
        return result

    tasks = [VideoTask(path, path.name, path, settings) for path in paths]
    results = run_video_tasks(tasks, read, progress=progress)
    if not videos:
        raise BasslError(results[0].error if len(results) == 1 else f"no video to learn from: {results[0].error}")
    adapted = adapt_model(videos, loaded.model.network, loaded.model.calibration)
    scene_ends = sum(int(video.scene_end.sum()) for video in videos)
    shots = sum(len(video.scene_end) for video in videos)
    learned_from = {"videos": len(videos), "shots": shots, "scene_ends": scene_ends}
    facts: dict[str, Any] = {"stage": "learn", "learned_from": learned_from, "started_from": opened.digest}
    facts |= {"strength": adapted.strength, "measured": adapted.measured}
    model = replace(loaded.model, network=adapted.network, calibration=adapted.calibration, training=facts)
    save_boundary_model(settings.output, model)
    return LearnResult(settings.output, tuple(results), scene_ends, adapted.strength, adapted.adapted, adapted.measured)


def _read(
    loaded: LoadedModel, reader_settings: ReaderSettings, task: VideoTask[LearnSettings], report: ReportVideo
) -> tuple[VideoResult, str | None, LabeledTokens]:
    """Read the evidence and labels of a video, and its fingerprint."""
    source = open_scenes(task.video)
    scenes, video = source.scenes, source.existing_video()
    warnings: list[str] = []
    if task.settings.labels is None:
        check_corrected(scenes, str(source.file))
    else:
        scenes = _with_labels(scenes, task.settings.labels, warnings)
    if len(scenes.scenes) < 2:
        raise BasslError(f"{source.file}: has one scene; learning needs videos with several")
    reading = read_shots(scenes, video, reader_settings, task.seconds_to(report), warnings)
    shots, content, color = loaded.encoded_shots(reading, cores())
    labels = np.zeros(len(shots), np.uint8)
    # A scene that was dropped as too short ends at the next one.
    labels[[shot - 1 for scene in scenes.scenes for shot in (scene.start_shot, scene.end_shot) if shot]] = 1
    labels[-1] = 0
    tokens = shot_tokens(content, np.array([shot.end - shot.start for shot in shots]), color)
    return task.result_of(scenes, warnings=tuple(warnings)), fingerprint(video), LabeledTokens(tokens, labels)


def _with_labels(scenes: SceneData, labels: Path, warnings: list[str]) -> SceneData:
    """Return the shots in the scenes of a file of labels, or of the file named as the video in a folder."""
    rate, name = scenes.video.frame_rate, safe_id(scenes.video.id or Path(scenes.video.path).stem)
    if labels.is_dir():
        records, problems = read_scenes_of_folder(labels, frame_rate=rate)
        if name not in records:
            raise BasslError(f"{labels}: has no labels of {name}{f' ({problems[0]})' if problems else ''}")
        record = records[name]
    else:
        record = read_scenes_of_video(labels, rate)
    frames = np.array([(shot.start_frame, shot.end_frame) for shot in scenes.shots])
    scene_end, match = match_annotation(record, frames, np.array([(shot.start, shot.end) for shot in scenes.shots]))
    if match.unmatched:
        warnings.append(f"{len(match.unmatched)} of {match.scene_ends} labeled scene ends are at no cut; left out")
    ends = [*np.flatnonzero(scene_end).tolist(), len(scenes.shots) - 1]
    return replace(scenes, scenes=group_shots(scenes.shots, ends))
