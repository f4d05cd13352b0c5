"""Make the built-in model: ``python -m recipes.default_model FEATURES``.

Reads a folder of labeled per-shot features (`pipelines.datasets.shot_features`) and writes the files that ship with
the package: the model, trained on all videos, and its model card, whose figures are measured here by cross-validation
over videos and by training on one data set and testing on the other. ``bassl models`` shows the main ones.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import BasslError
from pipelines.files import write_atomically
from pipelines.models.boundary import BoundaryModel, save_boundary_model
from pipelines.models.networks.kinds import RelationalSettings
from pipelines.models.opening import BUILT_IN
from recipes.default_model.card import model_card, training_facts
from recipes.default_model.fitting import DRAWS, FOLDS, UNCHANGED, Report, fit, prepare
from recipes.default_model.study import Study, measure
from recipes.default_model.videos import read_videos


def make_default_model(
    folder: Path, output: Path, report: Report = lambda line: None, evidence: Path | None = None
) -> Study:
    """Measure, train on all videos, and write the model with `MODEL_CARD.md` beside it.

    ``folder``: of labeled features, one `.npz` per video. ``output``: the model file to write. ``report`` is called
    with one line when each part of the work starts. ``evidence``: folder in which evidence is stored, so that an
    interrupted run can continue.
    Raises DatasetError: the folder or a file in it cannot be read. BasslError: the model or its card cannot be written.
    ValueError: fewer than two videos, or a training set without scene ends.
    """
    videos = read_videos(folder)
    draws = prepare(videos, DRAWS, report, evidence)
    study = measure(videos, draws, FOLDS, report)
    plain = [forms[UNCHANGED] for forms in draws[0]]
    network = fit(plain, study.penalty)
    model = BoundaryModel(
        crn="relational",
        network=network,
        shape=RelationalSettings(),
        calibration=study.calibration,
        training=training_facts(study, FOLDS),
    )
    save_boundary_model(output, model)
    write_atomically(output.with_name("MODEL_CARD.md"), model_card(study, FOLDS).encode())
    return study


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m recipes.default_model", description=__doc__)
    parser.add_argument("features", type=Path, help="folder of labeled per-shot features, one .npz per video")
    parser.add_argument("--output", type=Path, default=BUILT_IN, help="model file to write (default: %(default)s)")
    parser.add_argument(
        "--evidence", type=Path, default=Path("data/evidence"), help="folder of stored evidence (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{(time.monotonic() - began) / 60:5.1f} min  {line}", file=sys.stderr, flush=True)

    try:
        make_default_model(options.features, options.output, report, options.evidence)
        report(f"written: {options.output} and MODEL_CARD.md")
    except BasslError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
