"""Counts of injected faults, printed at the end: tried, held and broken by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

TRIED: Counter[str] = Counter()
BROKEN: dict[str, list[str]] = {}

Inject = Callable[[str, str, Callable[[], None]], None]
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.faults)
            item.add_marker(pytest.mark.real_child)


def inject(kind: str, fault: str, check: Callable[[], None]) -> None:
    """Try one fault: ``check`` fails where the program does not hold."""
    TRIED[kind] += 1
    try:
        check()
    except Exception as error:  # all that is no fault of the test is a broken promise
        BROKEN.setdefault(kind, []).append(f"{fault}: {type(error).__name__}: {error}"[:300])


def held(kind: str) -> None:
    """Fail where a fault of this class broke something."""
    assert TRIED[kind], "nothing was tried"
    assert not BROKEN.get(kind), "\n".join(BROKEN[kind][:20])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TRIED:
        terminalreporter.write_line(f"{'faults':34} {'tried':>6} {'held':>6} {'broken':>6}")
    for kind, tried in TRIED.items():
        broken = len(BROKEN.get(kind, []))
        terminalreporter.write_line(f"{kind:34} {tried:6} {tried - broken:6} {broken:6}")
