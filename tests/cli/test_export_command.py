"""`bassl export` as people meet it: formats, endings, messages, and files that are never written over."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.outputs.exports import FORMATS
from tests.command import Bassl, running
from tests.outputs.exporting import NTSC, scene_list

HOME = Path(__file__).parents[2]


@pytest.fixture
def bassl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bassl:
    """Run the command in this process, in a folder with a scenes.json."""
    monkeypatch.chdir(tmp_path)
    scene_list([30, 31, 29], [1, 2], NTSC, path="film.mp4").save(tmp_path / "scenes.json")
    return running(monkeypatch, capfd)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_by_its_name(bassl: Bassl, name: str) -> None:
    path = Path(f"scenes{FORMATS[name].ending}")
    assert bassl("export", "--to", name) == (0, "", f"2 scenes; wrote {path}\n")
    assert path.stat().st_size > 50
    assert sorted(Path.cwd().iterdir()) == sorted(Path.cwd() / name for name in ("scenes.json", path.name))


def test_the_ending_of_the_output_says_the_format(bassl: Bassl) -> None:
    assert bassl("export", "scenes.json", "-o", "made/cut list.EDL", "--shots") == (
        0,
        "",
        "3 shots; wrote made/cut list.EDL\n",
    )
    assert Path("made/cut list.EDL").read_text().startswith("TITLE: film\nFCM: DROP FRAME\n")


def test_a_format_by_name_goes_before_the_ending(bassl: Bassl) -> None:
    assert bassl("export", "--to", "jsonl", "-o", "list.txt", "--quiet") == (0, "", "")
    assert len(Path("list.txt").read_text().splitlines()) == 2


def test_an_older_export_is_replaced(bassl: Bassl) -> None:
    Path("scenes.csv").write_text("old")
    assert bassl("export", "--to", "csv")[0] == 0
    assert Path("scenes.csv").read_text().startswith("Scene Number,")


def test_the_film_is_looked_for_beside_scenes_json(bassl: Bassl, film: Path) -> None:
    folder = Path("elsewhere")
    folder.mkdir()
    (folder / "film.mp4").write_bytes(film.read_bytes())
    Path("scenes.json").rename(folder / "scenes.json")
    assert bassl("export", folder / "scenes.json", "--to", "otio")[0] == 0
    assert (folder.resolve() / "film.mp4").as_uri() in (folder / "scenes.otio").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--to FORMAT", "csv", "label-studio", "-o FILE"]),
        (["--to", "avid"], ["'avid'", "edl"]),
        (["-o", "scenes.txt"], ["scenes.txt", ".csv"]),
        (["-o", "scenes.xml"], ["--to fcp7", "--to matroska"]),
        (["gone.json", "--to", "csv"], ["gone.json"]),
        (["--to", "csv", "-o", "scenes.json"], ["is what is to be exported"]),
        (["--to", "csv", "-o", "film.mp4"], ["is the video itself"]),
        (["--to", "csv", "-o", "."], ["is a folder"]),
        (["text.json", "--to", "csv"], ["text.json"]),
    ],
    ids=range(9),
)
def test_wrong_use_is_one_line(bassl: Bassl, arguments: list[str], words: list[str]) -> None:
    Path("film.mp4").write_text("the film")
    Path("text.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in Path.cwd().iterdir()}
    code, out, err = bassl("export", *arguments)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("bassl: ")
    assert all(word in line for word in words)
    assert {path.name: path.read_bytes() for path in Path.cwd().iterdir()} == before


def test_export_reads_what_predict_wrote(bassl: Bassl, film: Path, model: Path) -> None:
    assert (
        bassl("predict", film, "--model", model, "--scenes", 2, "-o", "scenes.json", "--overwrite", "--quiet")[0] == 0
    )
    assert bassl("export", "-o", "scenes.ndjson", "--quiet") == (0, "", "")
    rows = [json.loads(line) for line in Path("scenes.ndjson").read_text().splitlines()]
    written = json.loads(Path("scenes.json").read_text())
    assert [{"video": str(film), **scene} for scene in written["scenes"]] == rows


@pytest.mark.parametrize("command", ["export", "split"])
def test_help_waits_for_nothing_heavy(command: str) -> None:
    code = (
        "import sys; from bassl_cli.app import main; sys.argv = ['bassl', *sys.argv[1:]]\n"
        "try: main()\n"
        "finally: print({'torch', 'av', 'cv2', 'numpy', 'scenedetect'} & sys.modules.keys(), file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, command, "--help"], cwd=HOME, capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "set()\n")
    assert f"Usage: bassl {command}" in run.stdout
    assert f"Example: bassl {command}" in run.stdout
