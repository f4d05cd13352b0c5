"""``bassl.toml``: defaults of options, from a file in the working folder, above it, or named by --config."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bassl_cli import app, config
from pipelines.options import Time
from tests.command import Bassl
from tests.outputs.exporting import scene_list
from tests.running import ENVIRONMENT, HOME, posix


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


def test_the_command_line_takes_precedence_over_the_configuration_file(bassl: Bassl, scenes: Path) -> None:
    assert ends(bassl, "regroup", "-t", "0.15") == 2
    Path("bassl.toml").write_text("[regroup]\nthreshold = 0.05\n")
    assert ends(bassl, "regroup") == 3
    assert ends(bassl, "regroup", "-t", "0.15") == 2


def test_the_nearest_bassl_toml_is_used_unless_config_names_another(
    bassl: Bassl, scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenes = scenes.absolute()
    Path("bassl.toml").write_text("[regroup]\nthreshold = 0.05\n")
    Path("other.toml").write_text("[regroup]\nscenes = 1\n")
    below = Path("a/b")
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert ends(bassl, "regroup", str(scenes)) == 3
    assert ends(bassl, "--config", "../../other.toml", "regroup", str(scenes)) == 1


def test_paths_in_the_configuration_are_relative_to_its_file(
    bassl: Bassl, scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.toml").write_text('[export]\noutput = "out/list.csv"\n')
    scenes = scenes.absolute()
    Path("below").mkdir()
    monkeypatch.chdir("below")
    run = bassl("--config", "../mine.toml", "export", scenes)
    assert run.code == 0, run.err
    assert scenes.with_name("out").joinpath("list.csv").exists()


def test_a_value_that_may_be_a_name_is_a_path_if_the_file_exists(tmp_path: Path) -> None:
    (tmp_path / "runs/pretrain").mkdir(parents=True)
    (tmp_path / "net.onnx").touch()
    (tmp_path / "test").mkdir()
    for path in ("runs/pretrain", "net.onnx"):
        assert config._resolve(tmp_path, path, str) == str(tmp_path / path)
    for name in ("test", "timm:org/net"):
        assert config._resolve(tmp_path, name, str) == name
    assert config._resolve(tmp_path, "test", Path) == str(tmp_path / "test")
    assert config._resolve(tmp_path, "-", Path) == "-"


def test_flags_lists_and_subcommands_can_be_configured(
    bassl: Bassl, scenes: Path, monkeypatch: pytest.MonkeyPatch, own: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    own.write_text(
        'export.shots = true\nexport.to = "csv"\n[figure.curves]\noutput = "a.svg"\n[build-index]\n'
        'labels = ["a", "b"]\nonly-complete = true\n[pretrain]\ntasks = ["pp", "msm"]\nscale = [0.5, 1]\n'
        "min_batch = 2\n"
    )
    assert bassl("export", scenes).err == "3 shots; wrote scenes.csv\n"
    assert bassl("export", scenes, "--no-shots").err == "2 scenes; wrote scenes.csv\n"
    assert "a.svg" in bassl("figure", "curves", "--help").out
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
        ("[regroup]\nthreshold = 'high'", "[regroup] threshold must be a number, not the text 'high'"),
        ("[regroup]\nthreshold = true", "[regroup] threshold must be a number, not True"),
        ("[regroup]\nmin-scene = true", "[regroup] min-scene must be seconds or a timecode, not True"),
        ("[regroup]\nscenes = 1.5", "[regroup] scenes must be a whole number, not 1.5"),
        ("[regroup]\noutput = 3", "[regroup] output must be a path, not 3"),
        ("[regroup]\noutput = ''", "[regroup] output: the name of a file or folder is empty"),
        ("[regroup]\njson = 'yes'", "[regroup] json must be true or false, not the text 'yes'"),
        ("[regroup.threshold]\na = 1", "[regroup] threshold: no such option; did you mean threshold?"),
        ("[regrup]", "regrup: no table of a command, such as [predict]; did you mean regroup?"),
        ("threshold = 1", "threshold: no table of a command, such as [predict]"),
        ("[score]\ncompare = 'a.json'", "[score] compare must be a list of 2"),
        ("[score]\ncompare = ['a.json']", "[score] compare must be a list of 2"),
        ("[build-index]\ndoubtful = 'ed'", "[build-index] doubtful must be one of end, ignore, not 'ed'"),
        ("[regroup", "not TOML: "),
        ("\xff\xfe", "not TOML: "),
        ("[regroup]\nscenes = " + "[" * 1500 + "]" * 1500, "not TOML: too deeply nested"),
        ("[regroup]\n" + "# nothing to see\n" * 12_000, "is larger than 16 KB, too large for a file of this kind"),
        (f"[regroup]\nthreshold = 0x{'f' * 5000}", "[regroup] threshold: no command line could have this value"),
        ('[regroup]\noutput = "a\\u0000"', "[regroup] output: no command line could have this value"),
        ("[regroup]\nthreshold = 7", "the threshold must be above 0 and below 1, not 7"),
        ("[regroup]\nthreshold = inf", "the threshold must be above 0 and below 1, not inf"),
        ("[regroup]\nmin-scene = 20\nmax-scene = 10", "the shortest scene, 20 s, is longer than the longest, 10 s"),
        ("[models]\0", "not TOML: "),
        (None, "no such file"),
    ],
)
def test_an_invalid_file_key_or_value_gives_one_line_with_file_and_key(
    bassl: Bassl, text: str | None, complaint: str
) -> None:
    if text is not None:
        Path("mine.toml").write_text(text, encoding="latin-1")
    command = next((name for name in ("score", "build-index") if f"[{name}]" in (text or "")), "regroup")
    code, out, err = bassl("--config", "mine.toml", command, "scenes.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"bassl: mine.toml: {complaint}")


def test_an_error_of_the_command_line_does_not_name_the_configuration_file(bassl: Bassl, scenes: Path) -> None:
    Path("bassl.toml").write_text("[regroup]\nmin-scene = 20\n")
    assert bassl("regroup", "--threshold", 7).err == "bassl: the threshold must be above 0 and below 1, not 7\n"
    assert bassl("regroup", "--max-scene", 10).err.startswith(f"bassl: {Path.cwd()}/bassl.toml: the shortest scene")
    assert bassl("regroup", "--max-scene", 10, "--min-scene", 30).err.startswith("bassl: the shortest scene")


def test_a_file_with_a_byte_order_mark_is_read(bassl: Bassl, scenes: Path) -> None:
    Path("bassl.toml").write_bytes(b"\xef\xbb\xbf[regroup]\nthreshold = 0.05\n")
    assert ends(bassl, "regroup") == 3


@posix
@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_a_configuration_that_is_not_a_regular_file_gives_one_line(bassl: Bassl, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo("bassl.toml")
    else:
        Path("bassl.toml").symlink_to("/dev/zero")
    assert bassl("models") == (2, "", f"bassl: {Path.cwd()}/bassl.toml: is not a file\n")
    assert bassl("--config", "bassl.toml", "models") == (2, "", "bassl: bassl.toml: is not a file\n")
    assert bassl("--config", os.devnull, "models").code == 0


# --- whose file sets what ---------------------------------------------------------------------------------------------


def test_the_file_of_the_user_sets_any_option_and_the_one_of_a_folder_takes_precedence(
    bassl: Bassl, scenes: Path, own: Path
) -> None:
    own.write_text("[regroup]\nthreshold = 0.05\noverwrite = true\n")
    assert ends(bassl, "regroup") == 3
    Path("bassl.toml").write_text("[regroup]\nthreshold = 0.15\n")
    assert ends(bassl, "regroup") == 2
    Path("other.toml").write_text("[regroup]\nscenes = 1\n")
    assert ends(bassl, "--config", "other.toml", "regroup") == 1


def test_in_the_configuration_folder_the_file_is_the_own_one(
    bassl: Bassl, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.write_text("[encode]\nencoder = 'resnet50'\n")
    monkeypatch.chdir(own.parent)
    assert bassl("encode", "--help").code == 0


REFUSED = {
    "predict": ("describe", "dask", "discard-corrections", "overwrite", "output", "model", "encoder", "shots", "to"),
    "regroup": ("discard-corrections", "overwrite", "output"),
    "export": ("output", "to", "vectors", "video"),
    "split": ("output", "filename", "overwrite", "video"),
    "review": ("video", "keyframes"),
    "encode": ("encoder", "dask", "output"),
    "figure": ("curves",),
}


@pytest.mark.parametrize(("command", "option"), [(name, one) for name, all_ in REFUSED.items() for one in all_])
def test_a_file_in_a_folder_may_set_no_program_address_path_or_what_is_replaced(
    bassl: Bassl, own: Path, command: str, option: str
) -> None:
    kinds = {"overwrite": "true", "discard-corrections": "true", "vectors": "true"}
    text = f"[{command}]\n{option} = {kinds.get(option, chr(34) + 'touch' + chr(34))}\n"
    if command == "figure":
        text, command, option = "[figure.curves]\noutput = 'a.svg'\n", "figure.curves", "output"
    Path("bassl.toml").write_text(text)
    code, out, err = bassl(command.partition(".")[0], "--help")
    assert (code, out) == (2, "")
    refusal = "a folder's file may not set this; set it on the command line"
    place = f"or in {own}, or name the file with --config"
    assert err == f"bassl: {Path.cwd()}/bassl.toml: [{command}] {option}: {refusal}, {place}\n"
    assert bassl("--config", "bassl.toml", command.partition(".")[0], "--help").code == 0


def test_every_option_that_a_folder_may_set_exists_and_names_no_file(bassl: Bassl) -> None:
    for name, words in config.FOLDER_OPTIONS.items():
        options = app.load(name).callback.options
        for word in words:
            assert options[word.replace("-", "_")].kind in (bool, int, float, Time) or word in (
                "detector",
                "csv-separator",
                "preset",
                "format",
            )


@posix
def test_a_file_of_another_user_above_the_working_folder_is_not_read(
    bassl: Bassl, scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, scenes = Path("bassl.toml").absolute(), scenes.absolute()
    file.write_text("[regroup]\nthreshold = 0.05\n")
    Path("below").mkdir()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert ends(bassl, "regroup", scenes) == 3
    monkeypatch.chdir("below")
    run = bassl("regroup", scenes, "-t", "0.15", "-o", "-")
    assert run.err == f"warning: {file}: belongs to another user and is not read\n"
    assert ends(bassl, "regroup", scenes) == 1


@posix
def test_a_link_of_another_user_to_an_own_file_is_not_followed(
    bassl: Bassl, scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid():
        pytest.skip("only root may give a link away")
    Path("mine.toml").write_text("[regroup]\nthreshold = 0.05\n")
    Path("bassl.toml").symlink_to("mine.toml")
    os.lchown("bassl.toml", 12345, 12345)
    scenes = scenes.absolute()
    Path("below").mkdir()
    monkeypatch.chdir("below")
    assert "belongs to another user" in bassl("regroup", scenes, "-o", "-").err


def test_an_option_of_two_values_can_be_configured(bassl: Bassl) -> None:
    Path("mine.toml").write_text('[score]\ncompare = ["a.json", "b.json"]\n')
    scene_list([30, 31, 29], [1, 2]).save(Path("a.json"))
    scene_list([30, 31, 29], [0, 2]).save(Path("b.json"))
    assert bassl("--config", "mine.toml", "score", "a.json").code == 0


def test_a_working_folder_that_was_deleted_gives_one_line(bassl: Bassl) -> None:
    Path("gone").mkdir()
    os.chdir("gone")
    Path("../gone").rmdir()
    code, out, err = bassl("models")
    os.chdir("/")
    assert (code, out, err) == (2, "", "bassl: the working folder does not exist any more; change to another\n")


def test_help_shows_the_defaults_of_the_configuration_file_and_names_it(
    bassl: Bassl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    Path("bassl.toml").write_text("[regroup]\nthreshold = 0.05\n")
    text = bassl("regroup", "--help").out
    assert "[default: 0.05]" in text
    assert f"Defaults from {Path.cwd()}/bassl.toml" in text
    assert "Defaults from" not in bassl("export", "--help").out


def test_all_processes_of_a_job_use_the_configuration_of_the_first(
    bassl: Bassl, scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path("bassl.toml").absolute()
    file.write_text("[regroup]\nthreshold = 0.05\n")
    assert ends(bassl, "regroup") == 3
    file.write_text("[regroup]\nthreshold = 0.8\n")
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert config.read(None) == [config.ConfigFile(file, {"regroup": {"threshold": 0.05}}, is_trusted=False)]


def test_a_configuration_error_is_reported_before_heavy_imports(tmp_path: Path) -> None:
    (tmp_path / "bassl.toml").write_text("[pretrain]\nepoch = 3\n")
    program = (
        "import sys; from bassl_cli.app import main\nsys.argv = ['bassl', 'pretrain']\ntry: main()\n"
        "except SystemExit as end: print(end.code, {'torch', 'numpy', 'h5py'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert run.stdout == "2 set()\n"
    assert run.stderr == f"bassl: {tmp_path}/bassl.toml: [pretrain] epoch: no such option; did you mean epochs?\n"


def test_the_documentation_lists_what_a_folder_may_set() -> None:
    page = (HOME / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = (line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `"))
    listed = {
        command: set(re.findall("`(.+?)`", options))
        for names, options in rows
        for command in re.findall("`(.+?)`", names)
    }
    assert {name: set(words) for name, words in config.FOLDER_OPTIONS.items()} == {
        name: words for name, words in listed.items() if name in config.FOLDER_OPTIONS
    }
