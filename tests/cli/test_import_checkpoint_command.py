"""`bassl import-checkpoint`: stdout, stderr, exit codes, and no partial files."""

import os
from pathlib import Path

import pytest

from pipelines.models.bassl import load_bassl_model
from tests.command import Bassl, running
from tests.released_layout import released_state, save


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bassl:
    """Run the command in this process, in the temporary folder."""
    monkeypatch.chdir(tmp_path)
    return running(monkeypatch, capfd, "import-checkpoint")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return save(tmp_path / "bassl.ckpt", released_state(4))


def test_a_checkpoint_is_imported(checkpoint: Path, execute: Bassl) -> None:
    model = Path("runs/bassl/model.safetensors")
    assert execute(checkpoint.name) == (0, "", f"wrote {model}\n")
    assert set(load_bassl_model(model).head_names) == {"head_cgm", "head_msm", "head_nce", "head_pp"}
    assert execute(checkpoint.name, "-o", "again.safetensors", "--quiet") == (0, "", "")
    assert Path("again.safetensors").read_bytes() == model.read_bytes()


def test_an_existing_file_is_replaced_only_with_overwrite(tmp_path: Path, checkpoint: Path, execute: Bassl) -> None:
    mine = tmp_path / "mine.safetensors"
    mine.write_text("a week of training")
    run = execute(checkpoint, "-o", mine)
    assert (run.code, run.out) == (2, "")
    assert run.err == f"bassl: {mine}: already exists; name another file with --output, or use --overwrite\n"
    assert mine.read_text() == "a week of training"
    run = execute(checkpoint, "-o", checkpoint, "--overwrite")
    assert (run.code, run.err) == (2, f"bassl: {checkpoint}: is an input of this command; name another file to write\n")


class Evil:
    def __reduce__(self) -> object:
        return os.system, ("touch ran",)


@pytest.mark.parametrize(
    ("path", "words"),
    [("evil.ckpt", "would run code"), ("cut.ckpt", "cut.ckpt"), (".", ""), ("a" * 300, "file name too long")],
)
def test_what_cannot_be_imported_gives_a_one_line_error_runs_no_code_and_leaves_no_output(
    tmp_path: Path, checkpoint: Path, execute: Bassl, path: str, words: str
) -> None:
    save(Path("evil.ckpt"), released_state(), callbacks=Evil())
    Path("cut.ckpt").write_bytes(checkpoint.read_bytes()[:5000])
    run = execute(path, "-o", "out/model.safetensors")
    assert (run.code, run.out, len(run.err.splitlines()), words in run.err) == (2, "", 1, True)
    assert not list(tmp_path.glob("out/*"))
    assert not Path("ran").exists()
