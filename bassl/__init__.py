"""Turn a video into its scenes: the public Python API.

A name is imported when it is first used, so that ``import bassl`` is instant; ``__init__.pyi`` lists them all::

    import bassl

    result = bassl.predict("movie.mp4", min_scene=10)
    for scene in result.scenes:
        print(scene.start_timecode, scene.end_timecode)

    model = bassl.load_model()  # for many videos: nothing is loaded twice
    for video in videos:
        model.predict(video).save(video.with_suffix(".scenes.json"))

Each command of ``bassl`` is a function here, with its settings and its result. Options have the same names as on the
command line and may be passed by name to every function with settings, wherever they are nested in these::

    bassl.finetune(index="data/index.h5", output="runs/mine", epochs=5)

An error that a user can cause raises
`BasslError`, or `ValueError` for settings with bad values; its message is one line.
"""

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_HERE = Path(__file__)
_MODULE_OF = {
    alias.name: statement.module
    for statement in ast.parse(_HERE.with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(statement, ast.ImportFrom) and statement.module is not None
    for alias in statement.names
}
__all__ = sorted(name for name in _MODULE_OF if not name.startswith("_"))

_spec = find_spec("pipelines")
if _spec is None or _spec.origin is None or Path(_spec.origin).parents[1] != _HERE.parents[1]:
    raise ImportError(
        f"bassl needs its own package 'pipelines' and finds {_spec.origin if _spec else 'none'}; rename that one, or "
        "start Python in another folder"
    )


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'bassl' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
