"""``--help``: short, in plain words, the same option by the same name in every command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bassl_cli import app
from tests.command import Bassl
from tests.running import ENVIRONMENT

COMMANDS = {name: app.load(name) for name in app.MODULES if name != "figure"} | {
    f"figure {name}": command for name, command in app.load("figure").commands.items()
}


def options_of(command: Any) -> dict[str, Any]:
    return {flag: one for one in command.params if one.param_type_name == "option" for flag in one.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_short_names_no_python_type_and_leaves_the_rest_to_help_all(
    bassl: Bassl, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, shown, err = bassl(*name.split(), "--help")
    assert (code, err) == (0, "")
    assert f"Usage: bassl {name} " in shown
    assert f"xample: bassl {name}" in shown or f"xamples: bassl {name}" in shown
    assert not re.search(r"<\w+>|<list", shown)
    assert len(re.findall("^│ --", shown, re.MULTILINE)) <= 32
    hidden = {flag for flag, one in options_of(COMMANDS[name]).items() if one.hidden}
    assert ("--help-all" in shown) == bool(hidden)
    if hidden:
        short, full = (
            set(re.findall(r"^│ (--[\w-]+)", text, re.MULTILINE))
            for text in (shown, bassl(*name.split(), "--help-all").out)
        )
        assert short | hidden == full | {"--help-all"}
        assert not short & hidden


def test_help_version_and_an_error_of_the_configuration_import_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[pretrain]\nepoch = 3\n")
    commands = [["--version"], ["--help"], *([*name.split(), "--help"] for name in COMMANDS)]
    wrong = ["--config", str(tmp_path / "mine.toml"), "pretrain"]
    program = (
        f"import sys; from bassl_cli import app\nfor words in {[*commands, wrong]}:\n"
        "    sys.argv = ['bassl', *words]\n"
        "    try: app.main()\n"
        "    except SystemExit as end: print(words, end.code, HEAVY & sys.modules.keys())"
    ).replace("HEAVY", repr({"av", "cv2", "h5py", "matplotlib", "numpy", "scenedetect", "sklearn", "torch"}))
    run = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    lines = [*(f"{words} 0 set()" for words in commands), f"{wrong} 2 set()"]
    assert [line for line in run.stdout.splitlines() if line.endswith("set()")] == lines


def test_an_option_has_the_same_short_form_in_every_command() -> None:
    short: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for one in command.params:
            if one.param_type_name == "option":
                (long,) = (flag for flag in one.opts if flag.startswith("--"))
                short.setdefault(long, set()).add(" ".join(flag for flag in one.opts if flag != long))
    assert {long: forms for long, forms in short.items() if len(forms) > 1} == {}
    assert {long: forms.pop() for long, forms in short.items()}.items() >= {
        *(("--output", "-o"), ("--threshold", "-t"), ("--quiet", "-q"), ("--jobs", "-j"))
    }
