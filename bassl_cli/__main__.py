"""The entry point of ``bassl``, and of ``python -m bassl_cli``."""

import atexit
import gc
import os
import signal
import sys


def main() -> None:
    """Run the command line, see :func:`bassl_cli.app.main`. SIGTERM raises SystemExit, so that clean-up code runs."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115  # None if it was closed before
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # as stderr does
    code: object = 0
    try:
        gc.set_threshold(20_000, 20, 50)  # imports make many objects and no garbage, and take a tenth less time
        from bassl_cli.app import main as run  # start-up time: Typer

        run()
    except SystemExit as ending:
        code = ending.code
    except KeyboardInterrupt:  # in the imports above
        print("bassl: interrupted", file=sys.stderr)
        code = 130
    if "torch" not in sys.modules:  # Triton, part of torch, would report uncollected objects as leaks
        gc.freeze()  # saves time: no garbage collection of all imported modules at exit
    try:
        sys.stdout.flush()
    except OSError:  # shown already; Python would show it again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if code == 130 or "BASSL_LAUNCHED" in os.environ:  # interrupted, or a process of a distributed job
        _leave(code)
    sys.exit(code)  # type: ignore[arg-type]


def _leave(code: object) -> None:
    """End without finalizing Python: it may end by the signal of an interrupt, or abort as gloo's threads are alive."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
