"""What of the documentation is made by a program: docs/api.md, and the example of output in the README.

``python -m recipes.documentation`` writes both; ``make docs`` runs it.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
import shlex
import sys
import tempfile
import textwrap
from dataclasses import is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import bassl
from bassl_cli import app
from pipelines import settings as shared_settings
from pipelines.datasets.synthetic import SyntheticVideoSettings, truth_path, write_video

HOME = Path(__file__).parents[1]
README, API = HOME / "README.md", HOME / "docs" / "api.md"
_HEAD = """# Python API

`import bassl` is instant: a name is imported when it is first used. Each command is a function, with its settings and
its result. Errors that a user can cause are `BasslError`, or `ValueError` for settings with bad values; the message is
one line. A `ReportProgress` function is called with what is being done, such as `reading`, how much of it is done, and
how much there is in all, or None if that is not known. An exception that it raises ends the call. [A
notebook](notebook.ipynb) shows the functions at work. This page is made from docstrings and signatures by `make docs`.
"""


def api_page() -> str:
    """Return docs/api.md: every public name, with its signature, its fields and its docstring."""
    groups: dict[str, list[str]] = {name: [] for name in ("Functions", "Settings", "Results and data", "Errors")}
    names: list[str] = vars(bassl)["__all__"]
    for name in names:
        if name.startswith("_"):
            continue
        thing = getattr(bassl, name)
        if inspect.isfunction(thing):
            groups["Functions"].append(_function(name, thing))
        elif issubclass(thing, Exception):
            groups["Errors"].append(f"### `{name}({thing.__base__.__name__})`\n\n{_text(thing)}")
        else:
            shared = thing.__module__ == shared_settings.__name__ or thing is bassl.Machines
            is_setting = name.endswith(("Settings", "Options")) or shared
            kind = "Settings" if is_setting else "Results and data"
            groups[kind].append(_class(name, thing))
    parts = [_HEAD]
    for heading, entries in groups.items():
        parts += [f"## {heading}", *entries]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _source(thing: Any) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def _signature(node: Any, name: str) -> str:
    node.args.args = [one for one in node.args.args if one.arg != "self"]
    returned = f" -> {ast.unparse(node.returns)}" if node.name != "__init__" else ""
    line = f"{name}({ast.unparse(node.args)}){returned}"
    if len(line) > 110:
        line = re.sub(r", (?=\*?\*?\w+(?::|,|\)|=)|\*, )", ",\n    ", line.replace("(", "(\n    ", 1), count=0)
    return f"```python\n{line}\n```"


def _function(name: str, thing: Any) -> str:
    return f"### `{name}`\n\n{_signature(_source(thing), name)}\n\n{_text(thing)}"


def _class(name: str, thing: Any) -> str:
    node, described = _source(thing), is_dataclass(thing)
    fields = [(one, after) for one, after in pairwise([*node.body, None]) if isinstance(one, ast.AnnAssign)]
    lines = inspect.getsource(thing).splitlines()
    base = thing.__base__.__name__
    parts = [f"### `{name}({base})`" if base in vars(bassl)["__all__"] else f"### `{name}`", _text(thing)]
    if described and fields:
        rows = ["| field | type | default | |", "| --- | --- | --- | --- |"]
        for one, after in fields:
            assert isinstance(one.target, ast.Name)
            annotation, text = _annotation(one.annotation)
            if isinstance(after, ast.Expr):
                text = inspect.cleandoc(ast.literal_eval(after.value)).partition("\n\n")[0]
            text = " ".join(text.replace("`", "").split()) or lines[one.lineno - 1].partition("  # ")[2]
            cells = (f"`{one.target.id}`", f"`{annotation}`", _default(one.value, thing, one.target.id), text)
            rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        parts.append("\n".join(rows))
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or (method.name[0] == "_" and method.name != "__init__"):
            continue
        member = getattr(thing, method.name)
        if method.name == "__init__":
            parts.insert(1, _signature(method, name))
        elif isinstance(member, property):
            parts.append(f"`.{method.name}`: {_text(member)}")
        else:
            parts += [_signature(method, f"{name}.{method.name}"), _text(member)]
    return "\n\n".join(part for part in parts if part)


def _annotation(annotation: ast.expr) -> tuple[str, str]:
    """Return the type of a field, and its documentation if its annotation has one."""
    match annotation:
        case ast.Subscript(ast.Name("Annotated"), ast.Tuple([kind, ast.Call(ast.Name("Doc"), [text])])):
            return ast.unparse(kind), ast.literal_eval(text)
    return ast.unparse(annotation), ""


def _default(value: ast.expr | None, thing: Any, name: str) -> str:
    if value is None:
        return "required"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("advanced", "nested"):
        value = value.args[0]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "field":
        options = {one.arg: one.value for one in value.keywords}
        value = options.get("default") or ast.Call(options["default_factory"], [], [])
    if isinstance(value, ast.Attribute):  # an attribute of another class
        return f"`{getattr(thing, name)!r}`"
    return f"`{ast.unparse(value)}`"


def _text(thing: Any) -> str:
    """Return a docstring as Markdown: roles and double backquotes become single ones, arguments a list, examples
    code."""
    text = inspect.getdoc(thing) or ""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text).replace("``", "`")
    text = re.sub(r"::\n\n((?:    .*\n?|\n)+)", lambda match: _code(match[1]), text)
    text = re.sub(
        r"^(Args|Attributes|Raises|Returns|Yields):\n((?:    .*(?:\n|$))+)", _section, text, flags=re.MULTILINE
    )
    return text.strip()


def _code(block: str) -> str:
    return f":\n\n```python\n{textwrap.dedent(block).strip()}\n```\n"


def _section(match: re.Match[str]) -> str:
    entries = re.sub(r"\n\s{2,}", " ", textwrap.dedent(match[2])).strip().splitlines()
    if match[1] in ("Returns", "Yields"):
        return f"{match[1]}: {' '.join(entries)}\n"
    items = (re.sub(r"^([\w, *]+):", r"`\1`:", entry) for entry in entries)
    return f"{match[1]}:\n\n" + "\n".join(f"- {entry}" for entry in items) + "\n"


def make_videos(folder: Path) -> None:
    """Make the files of the README's commands: movie.mp4, its true scenes truth.csv, and videos/."""
    settings = SyntheticVideoSettings(
        seed=2, scenes=4, shots_per_scene=(4, 6), shot_seconds=(1.0, 2.0), width=320, height=180, dissolves=1
    )
    video = write_video(folder / "movie.mp4", settings)
    ends = [0, *(after.start_frame for before, after in pairwise(video.shots)
                 if before.scene != after.scene), video.frames]  # fmt: skip
    rate = float(video.frame_rate)
    rows = (f"{start / rate:.3f},{end / rate:.3f}" for start, end in pairwise(ends))
    (folder / "truth.csv").write_text("start,end\n" + "\n".join(rows) + "\n")
    truth_path(folder / "movie.mp4").unlink()  # `bassl predict` writes a file of this name
    (folder / "videos").mkdir()
    small = SyntheticVideoSettings(scenes=1, shots_per_scene=(2, 2), shot_seconds=(1.0, 1.0), width=64, height=48)
    for name in ("a.mp4", "b.mp4"):
        write_video(folder / "videos" / name, small)


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of code of a page."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def commands(page: str) -> list[list[str]]:
    """Return the command lines in the blocks of a page, without comments."""
    lines = (line for block in blocks(page, "sh") for line in block.splitlines())
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def with_example(page: str, output: str) -> str:
    """Return the README with what ``bassl predict movie.mp4`` printed as its example, the first block without a
    language."""
    return re.sub(r"(?<=\n```\n)scene .*?(?=```\n)", lambda match: output, page, count=1, flags=re.DOTALL)


def main() -> None:
    """Write what is made."""
    API.write_text(api_page(), encoding="utf-8")
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        make_videos(Path())
        sys.argv = ["bassl", "predict", "movie.mp4"]
        try:
            app.main()
        except SystemExit as end:
            if end.code:
                raise
    README.write_text(with_example(README.read_text(encoding="utf-8"), out.getvalue()), encoding="utf-8")


if __name__ == "__main__":
    main()
