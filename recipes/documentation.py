"""What a program makes: outputs of README and notebook, and the types of the options of functions.

``python -m recipes.documentation`` writes all; ``make generated`` runs it.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import inspect
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import bassl
from bassl_cli import app
from pipelines.datasets.synthetic import SyntheticVideoSettings, truth_path, write_video
from pipelines.options import Time

HOME = Path(__file__).parents[1]
README, NOTEBOOK = HOME / "README.md", HOME / "docs" / "notebook.ipynb"
OPTION_TYPES = HOME / "pipelines" / "stages" / "option_types.pyi"


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
    head = '"""Options of functions, which editors and mypy read; made from the settings by `make generated`."""'
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
        yield f"Literal[{', '.join(sorted(map(repr, inner)))}]"  # the order of equal unions is that of the first
    elif origin in (tuple, list):
        one = " | ".join(_accepted(inner[0]))
        yield from (one, f"Sequence[{one}]")
    else:
        yield from {Path: ("Path", "str"), type(None): ("None",)}.get(hint, (hint.__name__,))


def make_videos(folder: Path) -> None:
    """Make the files of the README's commands: movie.mp4, its true scenes truth.csv, and videos/."""
    settings = SyntheticVideoSettings(
        seed=2, scenes=4, shots_per_scene=(4, 6), shot_seconds=(1.0, 2.0), width=320, height=180, dissolves=1
    )
    write_video(folder / "movie.mp4", settings)
    truth = truth_path(folder / "movie.mp4")
    rows = (f"{scene['start']:.3f},{scene['end']:.3f}" for scene in json.loads(truth.read_text())["scenes"])
    (folder / "truth.csv").write_text("start,end\n" + "\n".join(rows) + "\n")
    truth.unlink()  # `bassl predict` writes a file of this name
    (folder / "videos").mkdir()
    small = SyntheticVideoSettings(scenes=1, shots_per_scene=(2, 2), shot_seconds=(1.0, 1.0), width=64, height=48)
    for name in ("a.mp4", "b.mp4"):
        write_video(folder / "videos" / name, small)


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of code of a page."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


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
