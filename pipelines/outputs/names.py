"""Names of several files of one video, from a template as PySceneDetect has them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from string import Template

from pipelines.errors import BasslError


def check_template(template: str, names: Collection[str]) -> None:
    """Raises ValueError, one line, for a template with another name than these after a dollar sign."""
    known = f"it may have {', '.join(f'${name}' for name in names)}"
    try:
        Template(template).substitute(dict.fromkeys(names, "1"))
    except KeyError as error:
        raise ValueError(f"--filename has ${error.args[0]}; {known}") from error
    except ValueError as error:
        raise ValueError(f"--filename has a $ without a name, which is written $$; {known}") from error


def file_names(template: str, rows: Iterable[Mapping[str, object]], ending: str, needed: str) -> list[str]:
    """A name for each row of values, safe for every file system. Raises BasslError where two are the same, which says
    that ``needed`` has to be in the template."""
    names = [re.sub(r'[/\\:*?"<>|]', "_", Template(template).substitute(row)) + ending for row in rows]
    if twice := [name for name, times in Counter(map(str.casefold, names)).items() if times > 1]:
        raise BasslError(f"{twice[0]}: is the name of several files; put {needed} into --filename")
    return names


def check_several(template: str, folder: Path | None, overwrite: bool) -> None:
    """Check that files of several videos with names from a template cannot replace each other in one folder."""
    if folder is not None and overwrite and "VIDEO_NAME" not in Template(template).get_identifiers():
        raise BasslError("files of one video would replace those of another; put $VIDEO_NAME into --filename")


def padded_number(index: int, of: int) -> str:
    """A number from 1, with as many digits as the last one has, but at least three."""
    return f"{index + 1:0{max(3, len(str(of)))}d}"
