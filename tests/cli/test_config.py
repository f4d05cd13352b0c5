"""``bassl.toml``: defaults of options, from the user's own file or one named by --config."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.command import Bassl
from tests.outputs.exporting import scene_list


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's own file, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/bassl").mkdir(parents=True)
    return tmp_path / "config/bassl/bassl.toml"


@pytest.fixture
def scenes(bassl: Bassl) -> Path:
    """In the working folder: three shots, with scores of 0.1 and 0.2 for the ends of the first two."""
    path = Path("scenes.json")
    scene_list([30, 31, 29], [1, 2]).save(path)
    return path


def ends(bassl: Bassl, *arguments: object) -> int:
    """How many scenes `bassl regroup` finds."""
    run = bassl(*arguments, "-o", "-")
    assert run.code == 0, run.err
    return run.out.count('"start_timecode"')


def test_the_users_own_file_or_the_one_of_config_sets_defaults_and_the_command_line_takes_precedence(
    bassl: Bassl, scenes: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("bassl.toml").write_text("not TOML")  # in the working folder: not read
    assert ends(bassl, "regroup", "-t", "0.15") == 2
    own.write_text("[regroup]\nthreshold = 0.05\noverwrite = true\n")
    assert ends(bassl, "regroup") == 3
    assert ends(bassl, "regroup", "-t", "0.15") == 2
    Path("other.toml").write_bytes(b"\xef\xbb\xbf[regroup]\nscenes = 1\n")  # in place of the user's own
    assert ends(bassl, "--config", "other.toml", "regroup") == 1
    assert ends(bassl, "--config", os.devnull, "regroup", "-t", "0.15") == 2
    monkeypatch.setenv("COLUMNS", "300")
    text = bassl("regroup", "--help").out
    assert "[default: 0.05]" in text
    assert f"Defaults from {own}" in text
    assert "Defaults from" not in bassl("export", "--help").out


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('model = "none"', "../none: no such run or model"),
        ('model = "default"\nencoder = "net.onnx"', "../net.onnx: is not an ONNX network"),
        ('encoder = "folder"', "unknown encoder 'folder'"),
    ],
)
def test_paths_in_the_configuration_are_relative_to_its_file_and_names_are_names(
    bassl: Bassl, scenes: Path, monkeypatch: pytest.MonkeyPatch, line: str, complaint: str
) -> None:
    Path("net.onnx").touch()
    Path("folder").mkdir()
    Path("mine.toml").write_text(f'[export]\noutput = "list.csv"\n[regroup]\noutput = "-"\n[predict]\n{line}\n')
    monkeypatch.chdir("folder")
    configured = ("--config", "../mine.toml")
    assert bassl(*configured, "export", "../scenes.json").code == 0
    assert Path("../list.csv").exists()
    assert bassl(*configured, "regroup", "../scenes.json", "-t", 0.15).out.startswith("{")
    (refused,) = bassl(*configured, "predict", "../net.onnx").complaints
    assert refused.startswith(f"bassl: {complaint}")


def test_flags_and_lists_can_be_configured(
    bassl: Bassl, scenes: Path, monkeypatch: pytest.MonkeyPatch, own: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    own.write_text(
        'export.shots = true\nexport.to = "csv"\n[build-index]\n'
        'labels = ["a", "b"]\nonly-complete = true\n[pretrain]\ntasks = ["pp", "msm"]\nscale = [0.5, 1]\n'
        "min_batch = 2\n"
    )
    assert bassl("export", scenes).err == "3 shots; wrote scenes.csv\n"
    assert bassl("export", scenes, "--no-shots").err == "2 scenes; wrote scenes.csv\n"
    assert bassl("build-index", "--help").code == 0
    run = bassl("pretrain", "--help")
    assert (run.code, run.err) == (
        2,
        f"bassl: {own}: [pretrain] min_batch: no such option; did you mean micro-batch?\n",
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[regroup]\nthreshhold = 1", "[regroup] threshhold: no such option; did you mean threshold?"),
        ("[regroup]\nfile = 'a'", "[regroup] file: no such option"),
        ("[regroup]\nthreshold = 'high'", "[regroup] threshold must be a number, not 'high'"),
        ("[regroup]\nthreshold = true", "[regroup] threshold must be a number, not True"),
        ("[regroup]\nmin-scene = true", "[regroup] min-scene must be seconds or a timecode, not True"),
        ("[regroup]\njson = 'yes'", "[regroup] json must be true or false, not 'yes'"),
        ("[figure.curves]", "[figure] curves: no such option"),
        ("[regrup]", "regrup: no table of a command, such as [predict]; did you mean regroup?"),
        ("threshold = 1", "threshold: no table of a command, such as [predict]"),
        ("[build-index]\ndoubtful = 'ed'", "[build-index] doubtful must be one of end, ignore, not 'ed'"),
        ("[regroup", "not TOML: "),
        ("\xff\xfe", "not TOML: "),
        (None, "cannot be read (no such file or directory)"),
    ],
)
def test_an_invalid_file_key_or_value_gives_one_line_with_file_and_key(
    bassl: Bassl, text: str | None, complaint: str
) -> None:
    if text is not None:
        Path("mine.toml").write_text(text, encoding="latin-1")
    command = next((name for name in ("build-index", "figure") if f"[{name}" in (text or "")), "regroup")
    code, out, err = bassl("--config", "mine.toml", command, "scenes.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"bassl: mine.toml: {complaint}")
