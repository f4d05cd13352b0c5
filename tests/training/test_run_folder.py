"""The folder of a run: one process at a time, nothing replaced unasked, and a log that continues with the run."""

import json
import math
import platform
import sys
import time
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import pipelines
from pipelines.errors import BasslError, StoreError
from pipelines.models.opening import MODEL, STATE
from pipelines.settings import RunSettings
from pipelines.training import Peer
from pipelines.training.run_folder import (
    LOG,
    RECORD,
    RESULT,
    VALIDATION,
    RunLog,
    check_identity,
    open_run,
    read_log,
    record_run,
    save_state,
    seed_file,
)
from tests.running import posix
from tests.small_stores import refusal


def opened(folder: Path, resume: bool = False, overwrite: bool = False) -> list[str]:
    """The names in the folder while a run has it."""
    with open_run(RunSettings(folder, resume=resume, overwrite=overwrite), {}, Peer(0, 1)):
        return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", [STATE, MODEL, LOG, VALIDATION, RESULT, seed_file(3)])
def test_a_folder_with_files_of_a_run_is_used_only_with_resume_or_overwrite(tmp_path: Path, name: str) -> None:
    for there in (name, "notes.txt", "seed-one.safetensors"):
        (tmp_path / there).write_text("a run")
    advice = "contains a run; continue it with `resume=True`, replace it with `overwrite=True`, or name another folder"
    with pytest.raises(BasslError, match=advice):
        opened(tmp_path)
    assert (tmp_path / name).read_text() == "a run"
    (tmp_path / "tensorboard").mkdir()
    assert opened(tmp_path, overwrite=True) == ["notes.txt", "seed-one.safetensors"]


@posix
def test_a_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    elsewhere, content = tmp_path / "elsewhere", "step,loss\n1,0.5\n"
    elsewhere.write_text(content)
    (tmp_path / LOG).symlink_to(elsewhere)
    with RunLog(tmp_path, 1) as log:
        log.write(LOG, {"step": 2, "loss": 0.25})
    assert elsewhere.read_text() == content
    assert read_log(tmp_path / LOG)[-1] == {"step": 2, "loss": 0.25}


def test_a_run_records_its_command_versions_devices_and_time_and_a_resumed_one_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/lib/bassl_cli/__main__.py", "pretrain", "--output", "a run"])
    settings, facts = RunSettings(tmp_path, seed=7), {"device": "cpu", "precision": "float32"}
    with record_run(tmp_path, settings, Peer(0, 1), **facts):
        (part,) = json.loads((tmp_path / RECORD).read_text())["parts"]
        assert part["seconds"] is None  # as it stays if the run is killed
    with pytest.raises(KeyboardInterrupt), record_run(tmp_path, settings, Peer(0, 1), **facts):
        raise KeyboardInterrupt
    content = json.loads((tmp_path / RECORD).read_text())
    assert (content["schema"], content["version"]) == ("bassl.run", 1)
    for part in content["parts"]:
        assert part["command"] == "bassl pretrain --output 'a run'"
        assert part["versions"] == {
            "bassl": pipelines.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
        }
        assert part["seconds"] >= 0
        assert (part["processes"], part["devices"], part["precision"]) == (1, ["cpu"], "float32")
        assert part["settings"]["seed"] == 7
    assert len(content["parts"]) == 2
    assert opened(tmp_path) == []  # a run that left nothing else is begun anew


@pytest.mark.parametrize("content", ["", "[]", '{"parts": 7}', "[" * 10**5])
def test_a_file_that_is_not_the_record_of_a_run_gives_a_one_line_error(tmp_path: Path, content: str) -> None:
    (tmp_path / RECORD).write_text(content)
    with (
        pytest.raises(StoreError, match=r"run\.json: is not the record of a run; move it away"),
        record_run(tmp_path, RunSettings(tmp_path), Peer(0, 1), device="cpu"),
    ):
        pass


@pytest.mark.parametrize("name", [MODEL, seed_file(0)])
def test_a_model_without_training_state_cannot_be_resumed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(BasslError, match=r"has a model but no state\.pt to continue from"):
        opened(tmp_path, resume=True)
    save_state(tmp_path, {"settings": "{}", "step": 3, "model": {}, "optimizer": {}})
    assert opened(tmp_path, resume=True) == sorted([name, STATE])


class Evil:
    """Unpickled by a call."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return Path.touch, (self.path,)


def test_a_state_that_would_run_code_is_refused_without_running_it(tmp_path: Path) -> None:
    torch.save({"settings": "{}", "step": 3, "model": Evil(tmp_path / "ran"), "optimizer": {}}, tmp_path / STATE)
    refusal(lambda: opened(tmp_path, resume=True), "state.pt: is damaged or not the state of a run")
    assert not (tmp_path / "ran").exists()


def test_a_run_folder_is_a_folder_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        open_run(RunSettings(tmp_path / "run"), {}, Peer(0, 1)),
        pytest.raises(BasslError, match="run: another process is"),
    ):
        opened(tmp_path / "run")
    assert opened(tmp_path / "run") == []
    assert not list((tmp_path / "run").iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(BasslError, match=r"file: cannot be written \(file exists\)$"):
        opened(tmp_path / "file")


def test_a_run_can_be_resumed_only_with_the_same_settings(tmp_path: Path) -> None:
    begun = {"stage": "finetune", "settings": {"rate": 0.1, "crn": {"width": 8}}}
    check_identity(tmp_path, begun, {"stage": "finetune", "settings": {"crn": {"width": 8}, "rate": 0.1}})
    for now, difference in (
        ({"rate": 0.1, "crn": {"width": 9}}, "width 8, not 9"),
        ({"rate": 0.1, "crn": {"width": 8, "depth": 2}}, "depth None, not 2"),
        ({"crn": {"width": 8}}, "rate 0.1, not None"),
    ):
        with pytest.raises(BasslError, match=f"its run was started with {difference}; resume it with the same"):
            check_identity(tmp_path, begun, {"stage": "finetune", "settings": now})
    with pytest.raises(BasslError, match="started with another index"):
        check_identity(tmp_path, {**begun, "keyframes of the index": 6}, {**begun, "keyframes of the index": 7})


def test_a_log_has_each_step_once_after_a_killed_run_is_resumed(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text("step,lo")  # by a full disk: begun again
    with RunLog(tmp_path, 0) as log:
        for step in (1, 2, 3, 4):
            log.write(LOG, {"step": step, "loss": step / 3})
    with (tmp_path / LOG).open("a") as file:
        file.write("5")  # killed in the middle of a row
    assert [row["step"] for row in read_log(tmp_path / LOG)] == [1, 2, 3, 4]
    with RunLog(tmp_path, 2) as log:
        log.write(LOG, {"step": 3, "loss": 7.0})
    assert read_log(tmp_path / LOG) == [
        {"step": step, "loss": pytest.approx(loss, rel=1e-7)} for step, loss in ((1, 1 / 3), (2, 2 / 3), (3, 7))
    ]
    with RunLog(None, 0) as log:
        log.write(VALIDATION, {"step": 3, "loss": 7.0})
    assert read_log(tmp_path / VALIDATION) == []


def test_a_measure_is_logged_under_its_own_name_where_a_resumed_run_measures_others(tmp_path: Path) -> None:
    with RunLog(tmp_path, 0) as log:
        log.write(VALIDATION, {"step": 1, "knn": 0.1, "nmi": 0.2})
    with RunLog(tmp_path, 1) as log:
        log.write(VALIDATION, {"step": 2, "auc": 0.6, "knn": 0.5})
    first, second = read_log(tmp_path / VALIDATION)
    assert (first["knn"], first["nmi"], second["knn"], second["auc"]) == (0.1, 0.2, 0.5, 0.6)
    assert math.isnan(first["auc"])
    assert math.isnan(second["nmi"])


def losses_of(folder: Path) -> list[tuple[int, float]]:
    """The steps and values of a curve that TensorBoard shows."""
    events = EventAccumulator(str(folder)).Reload()
    return [(event.step, event.value) for event in events.Scalars("log/loss")]


def test_each_seed_has_its_own_curves_from_its_first_step_also_in_a_resumed_run(tmp_path: Path) -> None:
    steps = 3  # of each seed
    rows = [{"step": step, "seed": (step - 1) // steps, "loss": float(step)} for step in range(1, 10)]
    with RunLog(tmp_path, 0, seed_steps=steps) as log:
        for row in rows[:5]:
            log.write(LOG, row)
    time.sleep(1 - time.time() % 1)  # TensorBoard reads files in the order of the seconds in their names
    with RunLog(tmp_path, 4, seed_steps=steps) as log:  # the last row was written after the last state
        for row in rows[4:]:
            log.write(LOG, row)
    for seed in range(3):
        assert losses_of(tmp_path / "tensorboard" / f"seed-{seed}") == [
            (at, float(seed * steps + at)) for at in range(1, steps + 1)
        ]
    assert [row["step"] for row in read_log(tmp_path / LOG)] == list(range(1, 10))


@pytest.mark.parametrize(
    "content", ["step,loss\n1,x\n2,3\n", "step,loss\ninf,1\n", "epoch\n1\n", "step,step\n1,2\n", "step;loss\n1;2\n"]
)
def test_a_table_that_is_not_a_log_is_neither_read_nor_continued(tmp_path: Path, content: str) -> None:
    (tmp_path / LOG).write_text(content)
    for use in (lambda: read_log(tmp_path / LOG), lambda: RunLog(tmp_path, 1)):
        refusal(use, "log.csv: is not the log of a run; move it away")
    assert (tmp_path / LOG).read_text() == content


@posix
def test_curves_that_cannot_be_written_or_would_be_written_elsewhere_are_refused(tmp_path: Path) -> None:
    curves, elsewhere = tmp_path / "tensorboard", tmp_path / "elsewhere"
    curves.touch()
    refusal(lambda: RunLog(tmp_path, 1), "tensorboard: cannot be written (file exists)", error=BasslError)
    elsewhere.mkdir()
    curves.unlink()
    curves.symlink_to(elsewhere)
    refusal(lambda: RunLog(tmp_path, 1), "tensorboard: is a link; remove it", error=BasslError)
