"""The entry point of ``bassl``, and of ``python -m bassl_cli``."""

import atexit
import gc
import os
import sys
from pathlib import Path
from typing import NoReturn

from bassl_cli.interrupts import exit_on_sigint


def main() -> None:
    """Run the command line, see :func:`bassl_cli.app.main`."""
    exit_on_sigint()  # Ctrl-C during the imports below
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # None if it was closed before
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    from pipelines.processes import collect_garbage_less
    from pipelines.training.jobs import is_worker

    collect_garbage_less()
    from bassl_cli.app import main as run  # start-up time: Typer

    code: object = 0
    try:
        run()
    except SystemExit as ending:
        code = ending.code
    finally:
        if "torch" not in sys.modules:  # Triton, part of torch, would report uncollected objects as leaks
            gc.freeze()  # saves time: no garbage collection of all imported modules at exit
    if is_worker():
        _leave_job(code)
    sys.exit(code)  # type: ignore[arg-type]


def _leave_job(code: object) -> NoReturn:
    """End a process of a distributed job without finalizing Python. DDP keeps the process group, and so the threads of
    gloo, alive; one that frees the last tensor while Python is finalized would abort the process."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
