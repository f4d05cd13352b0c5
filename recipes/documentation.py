"""What a program makes: docs/api.md, outputs of README and notebook, and the types of the options of functions.

``python -m recipes.documentation`` writes all; ``make docs`` runs it.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import inspect
import io
import json
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from types import FunctionType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import bassl
from bassl_cli import app
from pipelines import settings as shared_settings
from pipelines.datasets.synthetic import SyntheticVideoSettings, truth_path, write_video
from pipelines.options import Time

HOME = Path(__file__).parents[1]
README, API, NOTEBOOK = HOME / "README.md", HOME / "docs" / "api.md", HOME / "docs" / "notebook.ipynb"
OPTION_TYPES = HOME / "pipelines" / "stages" / "option_types.pyi"
_HEAD = """# Python API

`import bassl` is instant: a name is imported when it is first used. Each command is a function, with its settings and
its result. Errors that a user can cause are `BasslError`, or `ValueError` for settings with bad values; the message is
one line. `**options` are the fields of the settings, by name; editors complete them, and mypy checks them. Fields
accept text for paths and times, and one value for several. [A notebook](notebook.ipynb) shows the functions at work.
This page is made from docstrings and signatures by `make docs`.
"""


def api_page() -> str:
    """Return docs/api.md: every public name, with its signature, its fields and its docstring."""
    groups: dict[str, list[str]] = {name: [] for name in ("Functions", "Settings", "Results and data", "Errors")}
    names: list[str] = vars(bassl)["__all__"]
    for name in names:
        if name.startswith("_"):
            continue
        thing = getattr(bassl, name)
        if not isinstance(thing, type | FunctionType):
            groups["Results and data"].append(_alias(name))
        elif inspect.isfunction(thing):
            groups["Functions"].append(_function(name, thing))
        elif issubclass(thing, Exception):
            groups["Errors"].append(f"### `{name}({thing.__bases__[0].__name__})`\n\n{_text(thing)}")
        else:
            shared = thing.__module__ == shared_settings.__name__ or thing is bassl.Machines
            is_setting = name.endswith(("Settings", "Options")) or shared
            kind = "Settings" if is_setting else "Results and data"
            groups[kind].append(_class(name, thing))
    parts = [_HEAD]
    for heading, entries in groups.items():
        parts += [f"## {heading}", *entries]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def option_types() -> str:
    """Return the module with a typed dictionary of the options that each function of the API takes by name."""
    kinds: dict[str, type[Any]] = {"Grouping": bassl.Grouping}  # settings, by name
    arguments: dict[str, set[str]] = {"Grouping": set()}  # by settings, of the functions that take them
    for name in vars(bassl)["__all__"]:
        function = getattr(bassl, name)
        parameters = inspect.signature(function).parameters if name[0].islower() else {}
        if {"settings", "options"} <= parameters.keys():
            kind = str(parameters["settings"].annotation).partition(" | ")[0]
            kinds[kind] = inspect.unwrap(function).__globals__[kind]
            arguments.setdefault(kind, set()).update(parameters)
    parts, imports = [], {"collections.abc": {"Sequence"}, "pathlib": {"Path"}, "typing": {"Literal", "TypedDict"}}
    for kind, names in sorted(arguments.items()):
        options, name = _accepted_options(kinds[kind], imports), kind.removesuffix("Settings")
        options = {key: accepted for key, accepted in options.items() if key not in names}
        base = "TypedDict"
        if name in ("Export", "Image", "Report", "Split"):
            output, base = options.pop("output"), f"Scene{name}Options"  # a method of SceneList has it as an argument
            parts.append(_typed_dictionary(base, "TypedDict", options))
            options = {"output": output}
        parts.append(_typed_dictionary(f"{name}Options", base, options))
    video = _accepted_options(bassl.Reading, imports) | _accepted_options(bassl.Grouping, imports)
    parts.append(_typed_dictionary("VideoOptions", "TypedDict", video))
    lines = [f"from {module} import {', '.join(sorted(types))}" for module, types in sorted(imports.items())]
    of_libraries = [line for line in lines if not line.startswith("from pipelines")]
    blocks = ["\n".join(of_libraries), "\n".join(line for line in lines if line not in of_libraries)]
    head = '"""Options of functions, made from their settings by `make docs`, so that editors and mypy know them."""'
    source = "\n\n".join([head, *blocks, *parts]) + "\n"
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", OPTION_TYPES.name, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=HOME).stdout


def _typed_dictionary(name: str, base: str, options: Mapping[str, str]) -> str:
    return f"class {name}({base}, total=False):\n" + "\n".join(f"    {key}: {kind}" for key, kind in options.items())


def _accepted_options(settings: type[Any], imports: dict[str, set[str]]) -> dict[str, str]:
    """Return the types that options accept, by name, and add to the imports that they need."""
    options: dict[str, str] = {}
    hints = get_type_hints(settings, include_extras=True)
    for field in fields(settings):
        if not is_dataclass(field.default):
            if field.metadata.get("option", True):
                options[field.name] = " | ".join(dict.fromkeys(_accepted(hints[field.name])))
            continue
        inner = type(field.default)
        imports.setdefault(inner.__module__, set()).add(inner.__name__)
        options[field.name] = inner.__name__
        excluded = field.metadata.get("without", ())
        options |= {key: kind for key, kind in _accepted_options(inner, imports).items() if key not in excluded}
    return options


def _accepted(hint: Any) -> Iterator[str]:
    """Yield the types that a field accepts: also text for paths and times, and one value for several."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from ("float", "str") if Time in inner else _accepted(inner[0])
    elif origin in (UnionType, Union):
        for one in sorted(inner, key=lambda one: one is type(None)):
            yield from _accepted(one)
    elif origin is Literal:
        yield f"Literal[{', '.join(map(repr, inner))}]"
    elif origin in (tuple, list):
        one = " | ".join(_accepted(inner[0]))
        yield from (one, f"Sequence[{one}]")
    else:
        yield from {Path: ("Path", "str"), type(None): ("None",)}.get(hint, (hint.__name__,))


def _source(thing: Any) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


class _PlainTypes(ast.NodeTransformer):
    """Replaces the types of annotations in a module by what a caller passes: choices and times in place of names for
    them, and types without what only bassl reads."""

    def __init__(self, thing: Any) -> None:
        self._names = vars(sys.modules[thing.__module__])

    def visit_Name(self, node: ast.Name) -> ast.AST:  # ast's name
        value = self._names.get(node.id)
        is_alias = get_origin(value) in (Literal, Annotated)
        return ast.parse(" | ".join(_accepted(value)), mode="eval").body if is_alias else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:  # ast's name
        match node:
            case ast.Subscript(ast.Name("Annotated"), ast.Tuple([kind, *_])):
                return cast(ast.AST, self.visit(kind))
        return self.generic_visit(node)


def _signature(node: Any, thing: Any, name: str) -> str:
    arguments: ast.arguments = _PlainTypes(thing).visit(node.args)
    places = [*arguments.posonlyargs, *arguments.args]
    values = [None] * (len(places) - len(arguments.defaults)) + arguments.defaults
    pairs = [pair for pair in zip(places, values, strict=True) if pair[0].arg != "self"]
    parts = [_argument(*pair) for pair in pairs] + ["*"] * bool(arguments.kwonlyargs)
    parts += map(_argument, arguments.kwonlyargs, arguments.kw_defaults)
    parts += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    returned = f" -> {ast.unparse(_PlainTypes(thing).visit(node.returns))}" if node.name != "__init__" else ""
    line = f"{name}({', '.join(parts)}){returned}"
    if len(line) > 110:
        line = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returned}"
    return f"```python\n{line}\n```"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")


def _function(name: str, thing: Any) -> str:
    return f"### `{name}`\n\n{_signature(_source(thing), thing, name)}\n\n{_text(thing)}"


def _alias(name: str) -> str:
    """Return the entry of a name for a type: what it stands for, and the text below it."""
    module = sys.modules[vars(bassl)["_MODULE_OF"][name]]
    for node, after in pairwise([*ast.parse(inspect.getsource(module)).body, None]):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name and isinstance(after, ast.Expr):
            return f"### `{name}`\n\n```python\n{ast.unparse(node)}\n```\n\n{ast.literal_eval(after.value)}"
    raise ValueError(f"{name}: has no text below its definition")


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
            text = _documentation(one.annotation)
            annotation = ast.unparse(_PlainTypes(thing).visit(one.annotation))
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
            parts.insert(1, _signature(method, thing, name))
        elif isinstance(member, property):
            parts.append(f"`.{method.name}`: {_text(member)}")
        else:
            parts += [_signature(method, thing, f"{name}.{method.name}"), _text(member)]
    return "\n\n".join(part for part in parts if part)


def _documentation(annotation: ast.expr) -> str:
    """Return the documentation in the annotation of a field, or an empty text."""
    match annotation:
        case ast.Subscript(ast.Name("Annotated"), ast.Tuple([_, ast.Call(ast.Name("Doc"), [text])])):
            return str(ast.literal_eval(text))
    return ""


def _default(value: ast.expr | None, thing: Any, name: str) -> str:
    if value is None:
        return "required"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("advanced", "nested"):
        value = value.args[0]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "field":
        options = {one.arg: one.value for one in value.keywords}
        factory = options.get("default_factory")
        value = options.get("default") or (ast.Call(factory, [], []) if factory else None)
        if value is None:
            return "required"
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


def run_notebook() -> dict[str, Any]:
    """Run the cells of the notebook in the working folder, in order; return it with their outputs."""
    import matplotlib as mpl  # start-up time

    mpl.use("agg")
    from matplotlib import pyplot  # its backend is chosen first

    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, start=1):
        *statements, last = ast.parse("".join(cell["source"])).body
        shown = last.value if isinstance(last, ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(ast.Module([*statements, *[last] * (shown is None)], []), "cell", "exec"), names)
            value = eval(compile(ast.Expression(shown), "cell", "eval"), names) if shown else None
        outputs: list[dict[str, Any]] = []
        if text := out.getvalue():
            outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
        if value is not None:
            outputs.append({"output_type": "execute_result", "execution_count": number, **_shown(value)})
        for figure in map(pyplot.figure, pyplot.get_fignums()):
            image = io.BytesIO()
            figure.savefig(image, format="png", bbox_inches="tight", metadata={"Software": None})
            outputs.append({"output_type": "display_data", "data": _png(image.getvalue()), "metadata": {}})
        pyplot.close("all")
        cell |= {"execution_count": number, "outputs": outputs}
    return notebook


def _shown(value: Any) -> dict[str, Any]:
    """Return the forms of a value that a notebook shows: text, and HTML or an image if it has them."""
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    if hasattr(value, "_repr_png_"):
        data |= _png(value._repr_png_()) | {"text/plain": [type(value).__name__]}  # its repr has an address
    return {"data": data, "metadata": {}}


def _png(content: bytes) -> dict[str, str]:
    return {"image/png": base64.b64encode(content).decode()}


def main() -> None:
    """Write what is made."""
    API.write_text(api_page(), encoding="utf-8")
    OPTION_TYPES.write_text(option_types(), encoding="utf-8")
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        make_videos(Path())
        notebook = run_notebook()
        Path("movie.scenes.json").unlink(missing_ok=True)
        sys.argv = ["bassl", "predict", "movie.mp4"]
        try:
            app.main()
        except SystemExit as end:
            if end.code:
                raise
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    README.write_text(with_example(README.read_text(encoding="utf-8"), out.getvalue()), encoding="utf-8")


if __name__ == "__main__":
    main()
