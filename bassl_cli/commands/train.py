"""Commands that train: they encode and learn in this process or in several that torchrun starts; and commands that make
the data to train on: keyframes, sound and the index of all shots."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import astuple
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from bassl_cli import console
from bassl_cli.options import Videos, with_settings
from pipelines.errors import BasslError, SomeFailedError
from pipelines.options import with_options
from pipelines.outputs.tables import percent_with_deviation
from pipelines.stages.extract_keyframes import ExtractSettings, extract_keyframes as extract
from pipelines.stages.finetune import FinetuneSettings, finetune as run_finetuning
from pipelines.stages.pretrain import PretrainSettings, pretrain as run_pretraining
from pipelines.stages.settings import EncodeSettings, IndexSettings, SoundSettings
from pipelines.training import SOME_FAILED, STOPPED, Machines, is_worker, stopped_code
from pipelines.video.inputs import find_videos

R = TypeVar("R")


@contextmanager
def job(machines: Machines, advice: str) -> Iterator[bool]:
    """Run the block in each process of a job, started by this one if there are several; yield whether this process
    shows the result. Raises BasslError if GPUs are missing or a process died; SystemExit in the process that started
    the others, with their exit code, after ``advice`` if they were stopped."""
    if not (is_worker() or machines.gpus or machines.world_size > 1):
        yield True
        return
    from pipelines.training import distributed  # optional dependency: torch

    if not is_worker():
        distributed.check_gpus(machines, shlex.join(["bassl", *sys.argv[1:]]))
        if machines.world_size > 1:
            code = distributed.launch(machines, sys.argv[1:])
            if code in (STOPPED, 130):
                console.print_error(f"stopped; {advice}")
            raise SystemExit(code)
    shows = not is_worker() or os.environ["RANK"] == "0"
    with nullcontext() if console.debugging() else distributed.errors_to_launcher():
        yield shows


def train(stage: Callable[..., R], settings: Any, machines: Machines, verbose: bool) -> R | None:
    """Run a training stage's public function on the machines. Return its result in the process that shows it, None in
    the others. Raises the errors of `job` and the stage; SystemExit if it was stopped."""
    settings = with_options(settings, device=machines.device or settings.compute.device)
    advice = f"continue with --resume --output {settings.run.output}"
    with job(machines, advice) as shows, console.training_progress(verbose) as progress:
        result: Any = stage(settings, progress)
    if result.stopped:
        if not is_worker():  # else the process that started the others says so
            console.print_error(f"stopped after step {result.step} of {result.steps}; continue with --resume")
        raise SystemExit(STOPPED if is_worker() else stopped_code())
    return result if shows else None


def print_run(command: str, written: str, settings: PretrainSettings | FinetuneSettings) -> None:
    """Print what a run wrote, where its curves are, and what to do next."""
    curves = shlex.quote(str(settings.run.output / "tensorboard"))
    console.print_info(f"{written}; curves: tensorboard --logdir {curves}")
    console.suggest_next(command, settings.run.output)


@with_settings(spellings={"index": "INDEX"}, arguments={"index"})
def encode(settings: EncodeSettings, machines: Machines) -> None:
    """Compute the features of all shots of an index once, one file per video and encoder.

    Existing files are kept, so a stopped run continues where it was, and videos that are new in the index are added.
    Videos with damaged keyframes are listed at the end; all others are encoded.

    Example: bassl encode --encoder runs/pretrain --gpus 4"""
    if settings.parallel.dask and machines != Machines():
        raise BasslError("--dask encodes on the workers of the cluster; leave --gpus and --processes out")
    from pipelines.stages.encode import encode_shots  # start-up time: NumPy, OpenCV

    settings = with_options(settings, device=machines.device or settings.compute.device)
    with job(machines, "run it again to continue") as shows, console.stage_progress() as progress:
        try:
            store = encode_shots(settings, progress)
        except SomeFailedError as error:
            if shows:
                console.print_error(*error.failed, error.what)
            raise typer.Exit(SOME_FAILED if is_worker() else 1) from None
    if shows:
        typer.echo(store)
        console.suggest_next("encode")


@with_settings()
def pretrain(settings: PretrainSettings, machines: Machines, verbose: console.Verbose = False) -> None:
    """Pre-train a model on videos without labels.

    Learns from the keyframes of the videos in an index, or, with --features, from the features of a frozen encoder,
    which runs on a CPU. Defaults are the paper's, and the release's where it differs or says more.

    Example: bassl pretrain --gpus 16 --nodes 2 --node-rank 0 --rdzv-endpoint HOST:29500 --epochs 40"""
    result = train(run_pretraining, settings, machines, verbose)
    if result is not None:
        steps = console.count(result.step, "step")
        print_run("pretrain", f"{steps}; wrote {console.display_path(result.model)}", settings)


@with_settings()
def finetune(
    settings: FinetuneSettings, machines: Machines, verbose: console.Verbose = False, as_json: console.Json = False
) -> None:
    """Train a model to find scene ends, from labeled videos.

    Starts from a pre-trained model, freezes its shot encoder, and trains a network over the features of shots, with
    several seeds. Shows mean and standard deviation of the metrics on the test split; result.json has all of them.
    Defaults are the paper's, and the release's where it differs or says more.

    Example: bassl finetune --init runs/pretrain --crn transformer --transfer encoder+crn"""
    result = train(run_finetuning, settings, machines, verbose)
    if as_json and result is not None:
        typer.echo(result.report.read_text("utf-8"), nl=False)
    if result is None or as_json:
        return
    if result.mean:
        selection = "epoch chosen on val" if result.selected_on == "val" else result.selected_on
        title = f"{settings.crn} on {result.tested_on}, {console.count(result.seeds, 'seed')}, {selection}, in percent"
        names = {"ap": "AP", "auc": "AUC", "f1": "F1", "miou": "mIoU"}
        names |= {f"{name}_calibrated": f"{names[name]} calibrated" for name in ("f1", "miou")}
        cells = [percent_with_deviation(result.mean.get(name), result.std.get(name)) for name in names]
        console.show_table(tuple(names.values()), [cells], text=(), title=title)
    written = f"wrote {console.display_path(result.model)} and {console.display_path(result.report)}"
    print_run("finetune", written, settings)


@with_settings()
def extract_keyframes(videos: Videos, settings: ExtractSettings, as_json: console.Json = False) -> None:
    """Detect the shots of videos and store the keyframes of each shot.

    Finished videos are kept, so a stopped run continues.

    Example: bassl extract-keyframes movies/"""
    videos = find_videos(videos)
    with console.videos_progress(len(videos)) as progress:
        results = extract(videos, settings, progress)
    console.show_videos(results, ("frames", "shots"), f"stores in {console.display_path(settings.run.output)}", as_json)
    if not as_json:
        console.suggest_next("extract-keyframes", settings.run.output)


@with_settings()
def extract_sound(videos: Videos, settings: SoundSettings) -> None:
    """Store sound features of each shot: mean and deviation of log-mel energies.

    For the systems that take several kinds of features: bassl baseline lgss --extra data/sound

    Example: bassl extract-sound movies/"""
    from pipelines.stages.extract_sound import extract_sound as extract  # start-up time: NumPy, PyAV

    videos = find_videos(videos)
    with console.videos_progress(len(videos)) as progress:
        results = extract(videos, settings, progress)
    console.print_summary(results, f"features in {console.display_path(settings.run.output)}")


_KEYFRAMES = ExtractSettings().run.output


@with_settings(spellings={"split": "SHARES|FILE", "feature_folder": "FOLDER"}, repeated=("labels",))
def build_index(
    settings: IndexSettings,
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders of keyframe stores, MovieNet, BBC, OVSD, .npz features or scenes.json files "
            f"(default: {_KEYFRAMES}).",
            show_default=False,
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Only show the existing index.")] = False,
    as_json: console.Json = False,
) -> None:
    """Index all shots of all videos for training.

    Example: bassl build-index data/keyframes --labels labels/ --split 0.6,0.2,0.2"""
    output = settings.run.output
    if show and (sources or settings.labels):
        raise BasslError("--show reads the existing index; pass it with --output")
    if show and not output.exists():
        raise BasslError(f"{output}: no such file; run `bassl build-index`, or name an index with `output`")
    from pipelines.datasets.matching import describe_matches  # start-up time: NumPy, h5py, as the next one
    from pipelines.stages.build_index import build_index as stage, describe_index

    report = describe_index(output) if show else stage(sources or [_KEYFRAMES], settings)
    if as_json:
        console.print_json({**vars(report), "index": report.index.path})
        return
    rows = []
    for split, *counts, hours in map(astuple, report.splits):
        rows.append((split, *map("{:,}".format, counts), "" if hours is None else f"{hours:.1f}"))
    console.show_table(("split", "videos", "labeled", "scenes", "shots", "hours"), rows)
    console.note(*report.notes)
    if report.matches:
        console.print_info(f"labels: {describe_matches(report.matches.values())}")
    if not show:
        console.print_info(f"wrote {console.display_path(output)}")
        console.suggest_next("build-index", output)
