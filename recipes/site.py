"""What `make docs` needs beside mkdocs.yml: hooks of MkDocs for the pages that are not in docs/, and an extension of
Griffe, which reads the API, for the fields of dataclasses."""

from __future__ import annotations

import ast
import posixpath
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

HOME = Path(__file__).parents[1]
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "data/README.md": "data.md",
    "pipelines/models/data/MODEL_CARD.md": "model-card.md",
    "pipelines/scenes.schema.json": "scenes.schema.json",
    "LICENSE": "LICENSE.txt",
    "CITATION.cff": "CITATION.cff",
}
"""By path in the repository, where a file is on the site; files of docs/ are at its root."""
API = """# Python API

`import bassl` is instant: a name is imported when it is first used. Each command is a function, with its settings and
its result. Errors that a user can cause are `BasslError`, or `ValueError` for settings with bad values; the message is
one line. `**options` are the fields of the settings, by name; editors complete them, and mypy checks them. Fields
accept text for paths and times, and one value for several. [A notebook](notebook.ipynb) shows the functions at work.
"""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are elsewhere in the repository, and the API's."""
    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=str(HOME / source)))
    files.append(File.generated(config, "api.md", content=api_page()))
    return files


def api_page() -> str:
    """Return a page that names each public object, which mkdocstrings describes."""
    stub = ast.parse((HOME / "bassl" / "__init__.pyi").read_text(encoding="utf-8"))
    imported = (alias.name for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names)
    groups: dict[str, list[str]] = {name: [] for name in ("Functions", "Settings", "Results and data", "Errors")}
    for name in sorted(name for name in imported if not name.startswith("_")):
        kind = "Functions" if name[0].islower() else "Results and data"
        kind = "Settings" if re.search("(Settings|Grouping|Reading|Machines)$", name) else kind
        groups["Errors" if re.search("(Error|Warning)$", name) else kind].append(name)
    parts = [API]
    for heading, names in groups.items():
        parts += [f"## {heading}", *(f"::: bassl.{name}" for name in names)]
    return "\n\n".join(parts)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links between files of the repository lead to pages of the site."""
    sources = {site: source for source, site in ELSEWHERE.items()}
    folder = posixpath.dirname(sources.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def on_site(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        path = "README.md" if path == "docs/README.md" else path  # the site's navigation lists the pages
        return f"]({ELSEWHERE.get(path, path.removeprefix('docs/'))}"

    return re.sub(r"\]\((?!\w+:|#)([^)#\s]+)", on_site, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Show roles of docstrings, such as ``:func:`predict```, as code, and one colon before a block of code."""
    return re.sub(r":(?:func|class|meth|mod):(?=<code>)", "", html).replace("::</p>", ":</p>")


class Fields(griffe.Extension):  # type: ignore[misc]  # untyped where `make docs` does not run
    """Lists the fields of a dataclass in a table, in place of a long signature and of members."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Replace the fields of a dataclass by a section of its docstring."""
        if cls.docstring is None or "dataclass" not in cls.labels:
            return
        rows = []
        for name, field in cls.attributes.items():
            if field.annotation is None or "property" in field.labels:
                continue
            annotation, text = _type_and_text(field.annotation, field.module)
            text = (field.docstring.value if field.docstring else text) or field.source.partition("  # ")[2]
            rows.append(griffe.DocstringParameter(name, annotation=annotation, description=text, value=_default(field)))
            cls.members.pop(name, None)
        cls.members.pop("__init__", None)  # made from the fields
        cls.docstring.parsed.append(griffe.DocstringSectionParameters(rows, title="Fields"))


def _type_and_text(annotation: Any, module: griffe.Module) -> tuple[str, str]:
    """Return what a caller passes, with choices in place of their name, and the text of an `Annotated` type."""
    with suppress(griffe.AliasResolutionError):  # a type of another package
        value = getattr(module.members.get(str(annotation)), "value", None)  # of a name for a type
        if isinstance(value, griffe.ExprSubscript):
            return _type_and_text(value, module)
    if not isinstance(annotation, griffe.ExprSubscript) or str(annotation.left) != "Annotated":
        return str(annotation), ""
    plain, *others = annotation.slice.elements
    strings = re.findall(r"(?s)^\w+\((?:description=)?('.*?'|\".*?\")[,)]", "\n".join(map(str, others)))
    return _type_and_text(plain, module)[0], " ".join("".join(map(ast.literal_eval, strings)).split())


def _default(field: griffe.Attribute) -> str | None:
    """Return the first argument of `nested`, `advanced` or `field`, or the value itself."""
    value = field.value
    if isinstance(value, griffe.ExprCall) and str(value.function) in ("nested", "advanced", "field"):
        value = value.arguments[0]
    return None if value is None else str(value)
