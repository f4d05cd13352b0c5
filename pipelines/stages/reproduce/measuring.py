"""Running the lines of rows, and the tables of their results as Markdown, LaTeX and JSON.

What a line prints is kept in a file. A row is computed from these files, so a stopped table continues, and a file that
is damaged or missing is made again.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from itertools import chain, groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch

from pipelines.errors import BasslError, BasslWarning, count
from pipelines.evaluation.paper_tables import PUBLISHED, TABLES, Number
from pipelines.files import write_atomically
from pipelines.models.encoders.options import DEFAULT_ENCODER
from pipelines.models.opening import MODEL, STATE
from pipelines.outputs.tables import NOTHING, TextTable, latex, markdown, percent_with_deviation
from pipelines.processes import start_module
from pipelines.stages.reproduce import (
    Measured,
    ReproduceResult,
    ReproduceSettings,
    RowProgress,
    RowResult,
    StageOptions,
    TableResult,
)
from pipelines.stages.reproduce.planning import PAPER_ENCODER, Line, PlannedRow, find_data, planned_rows
from pipelines.training.jobs import STOPPED, Machines, stop_signals
from pipelines.training.launching import check_gpus
from pipelines.training.run_folder import LOG, RECORD, TENSORBOARD, settings_as_json

SCHEMA, SCHEMA_VERSION = "bassl.reproduce", 1
_EPOCH = re.compile(r"(?:seed (\d+)/(\d+) +)?epoch (\d+)/(\d+) ")


class StoppedError(Exception):
    """A signal ended the command; what it has done so far is kept."""


def measure_tables(settings: ReproduceSettings, progress: RowProgress, options: StageOptions | None) -> ReproduceResult:
    """Measure and write tables, see :func:`pipelines.stages.reproduce.reproduce`."""
    if settings.machines.nodes > 1:
        raise BasslError(
            "reproduce runs on one machine; run the lines of --plan, those with --nodes on every machine, and then "
            "reproduce without --nodes, which takes what they made"
        )
    check_gpus(settings.machines, f"bassl reproduce {settings.table} --plan")
    ways = find_data(settings.data, settings.output / "work", options)
    planned, data = planned_rows(settings, ways), ways[0]
    if data.kind == "movienet" and settings.machines.gpus is None and not torch.cuda.is_available():
        raise BasslError(
            "MovieNet from keyframes needs GPUs, and this machine has none; give other data with `data`, or `gpus=0` "
            "to run on the CPU all the same"
        )
    tables, failed, stopped = _measure(settings, planned, progress)
    result = ReproduceResult(tables, data.title, data.comparable, settings, data.options, failed, stopped)
    return write_tables(result, settings.output / settings.table / data.home.name)


def _measure(
    settings: ReproduceSettings, planned: Sequence[PlannedRow], progress: RowProgress
) -> tuple[tuple[TableResult, ...], tuple[str, ...], bool]:
    """Return the tables, a line for each row that failed, and whether a signal ended a command."""
    machines, failed, stopped = settings.machines, list[str](), False
    done: set[Line] = set()  # in this call, for any row
    tables = []
    for (name, protocol), rows in groupby(planned, key=lambda row: (row.table, row.protocol)):
        results = []
        for row in rows:
            label, result = row.row.label, None
            try:
                finals = row.finals.values() if row.wanted and not stopped else ()
                for lines in (lines for final in finals if not isinstance(final, str) for lines in final):
                    if settings.overwrite or kept_numbers(lines[-1]) is None:
                        for line in (line for line in lines if line not in done):
                            run(line, machines, settings.overwrite, partial(progress, label, line.command))
                            done.add(line)
                result = kept_row(row, machines)
            except StoppedError:
                stopped = True  # finished rows are still shown
            except BasslError as error:
                failed.append(f"{name}, {label}: {error}")
                result = RowResult(label, name=row.name, run=row.run, note=row.row.note, error=str(error))
            results.append(result or RowResult(label, name=row.name, run=row.run, note=row.row.note))
        ours = (column for row in planned if row.table == name for column in row.finals)
        columns = tuple(dict.fromkeys((*TABLES[name].columns, *ours)))
        tables.append(TableResult(name, protocol, columns, tuple(results)))
    return tuple(tables), tuple(failed), stopped


def kept_row(row: PlannedRow, machines: Machines) -> RowResult | None:
    """Return a row, computed from what its lines printed, or None if a file is missing or damaged. Raises BasslError
    for a run that was not tested."""
    cells, finished = {}, 0.0
    for column, final in row.finals.items():
        if isinstance(final, str):
            cells[column] = Measured(absent=final)
            continue
        values: list[float] = []
        for lines in final:
            if (numbers := kept_numbers(lines[-1])) is None or lines[-1].result is None:
                return None
            values += numbers.get(row.row.cells[column][1], ())
            finished = max(finished, lines[-1].result.stat().st_mtime)
        cells[column] = Measured(tuple(values)) if values else Measured(absent="not defined")
    notes = [row.row.note] if row.row.note else []
    if any(DEFAULT_ENCODER in line.words for line in row.lines):
        notes.append(f"{DEFAULT_ENCODER} instead of {PAPER_ENCODER}, whose weights cannot be downloaded here")
    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(finished)) if finished else ""
    return RowResult(row.row.label, cells, row.text(machines), row.name, row.run, note="; ".join(notes), finished=date)


def kept_numbers(line: Line) -> dict[str, list[float]] | None:
    """Return what a line of finetune, score or baseline printed, a metric for each seed by name, or None if the file is
    missing or damaged. Raises BasslError for a run that was not tested."""
    try:
        numbers = _read_numbers(line)
        return numbers if all(map(math.isfinite, chain(*numbers.values()))) else None
    except (OSError, ValueError, ArithmeticError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _digest_file(result: Path) -> Path:
    """Return the file with the digest of what a line printed, which shows that it is unchanged; the lines of --plan
    write none."""
    return result.with_name(f".{result.stem}.sha256")


def _read_numbers(line: Line) -> dict[str, list[float]]:
    numbers: dict[str, list[float]] = {}
    assert line.result is not None
    text = line.result.read_bytes()
    if (digest := _digest_file(line.result)).exists() and digest.read_text("ascii") != sha256(text).hexdigest():
        raise ValueError("it was changed")
    content = json.loads(text)
    if line.command == "finetune":
        if content["summary_of"] != "test":
            raise BasslError(f"{line.output}: was not tested, because the test split has no labeled scene ends")
        tests = [seed["test"] for seed in content["seeds"]]
        numbers = {name: [float(test[name]) for test in tests if name in test] for name in ("ap", "auc", "f1", "miou")}
        sums = [sum(metrics) for metrics in zip(*numbers.values(), strict=True)]
        return {**numbers, "sum": sums, "chance": _chance(content["index"]["test"])}
    for key, metric in content["metrics"].items():
        value = metric["videos"] if metric["pooled"] is None else metric["pooled"]
        seeds = list(content["seeds"][key]["values"].values()) if key in content["seeds"] else []
        numbers["auc" if key == "auc_roc" else key] = seeds or [value] * (value is not None)
    for length, scenes in content.get("representation", {"nmi": {}})["nmi"].items():
        numbers[f"nmi_{length}"] = [scenes["mean"]] * (scenes["mean"] is not None)
    short, long = numbers.get("nmi_8"), numbers.get("nmi_32")
    change = [(long[0] - short[0]) / short[0]] if short and long else []
    return {**numbers, "nmi_change": change, "chance": _chance(content)}


def _chance(counts: dict[str, int]) -> list[float]:
    """Return the share of scene ends among the shots of the test videos."""
    return [counts["scene_ends"] / counts["shots"]] if counts["shots"] else []


# --- running a line ---------------------------------------------------------------------------------------------------


def run(line: Line, machines: Machines, overwrite: bool, report: Callable[[float, float | None], None]) -> None:
    """Run a line whose needs are done, unless it writes one file, which is there. Raises BasslError if its command
    fails or its output belongs to something else, StoppedError if a signal ended it."""
    output, words = line.output, line.words_on(machines)
    if line.command == "write-split":
        printed = f"{words[-1]}\n"
    elif output is not None and output.is_file() and not overwrite:
        return
    else:
        if "--resume" in words:
            if output is not None and output.is_dir():  # a run may continue in an empty folder, or beside its own files
                names = {path.name for path in output.iterdir()}
                if names and names.isdisjoint((STATE, MODEL, LOG, TENSORBOARD, RECORD)):
                    raise BasslError(f"{output}: is not the folder of a run; move it away")
            if overwrite:
                words[words.index("--resume")] = "--overwrite"
        elif overwrite and line.command == "extract-keyframes":
            words.append("--overwrite")
        printed = run_command(words, report)
    if line.result is not None:
        write_atomically(_digest_file(line.result), sha256(printed.encode()).hexdigest().encode())
        write_atomically(line.result, printed.encode())
    if output is not None and not output.exists():
        raise BasslError(f"{output}: was not written by {line.text(machines)}; run it again")


def run_command(words: Sequence[str], report: Callable[[float, float | None], None]) -> str:
    """Run a command line as a process, and return what it printed. ``report`` is called with the epochs done and all.
    SIGINT and SIGTERM are passed on. Raises BasslError with the command's reason, StoppedError after a signal."""
    words = [path for word in words for path in expanded(word)]
    if words[0] == "bassl":  # without the user's file of defaults, which would change numbers
        module, arguments = "bassl_cli", ["--config", os.devnull, *words[1:]]
    else:
        module, arguments = words[2], words[3:]
    reason = last = ""
    with TemporaryFile("w+") as output:
        with start_module(module, arguments, output) as child, stop_signals(child.send_signal) as signals:
            try:
                assert child.stderr is not None
                report(0, None)
                for line in map(str.strip, child.stderr):
                    last = line or last
                    kind, _, text = line.partition(": ")
                    if kind == "warning":
                        warnings.warn(BasslWarning(text), stacklevel=2)
                    elif kind in ("bassl", "error"):
                        reason = reason or text
                    elif match := _EPOCH.match(line):
                        seed, seeds, epoch, epochs = (int(number or 1) for number in match.groups())
                        report((seed - 1) * epochs + epoch, seeds * epochs)
                child.wait()
            except BaseException:  # a second signal, which does not wait
                child.kill()
                raise
        if signals or child.returncode == STOPPED:
            raise StoppedError
        if child.returncode:
            ended = f"ended with exit code {child.returncode}" if child.returncode > 0 else "was killed"
            raise BasslError(reason or f"{shlex.join(words)}: {ended}{': ' * bool(last)}{last}")
        output.seek(0)
        return output.read()


def expanded(word: str) -> list[str]:
    """Return what the folder of a word that ends in /* contains, or the word."""
    return [str(path) for path in sorted(Path(word).parent.glob("[!.]*"))] if word.endswith("/*") else [word]


# --- tables -----------------------------------------------------------------------------------------------------------


def heading(result: ReproduceResult, table: TableResult) -> str:
    """Return one line: the table, the data, and whether the paper's numbers were measured on the same data."""
    paper = TABLES[table.name]
    protocol = f", {table.protocol}" if table.protocol else ""
    same = "the paper's data" if result.comparable else f"the paper's column is {paper.data}: not comparable"
    settings = result.settings
    over = f"standard deviation over {count(settings.seeds, 'fine-tuning or training seed')}"
    if settings.pretrain_seeds > 1:
        over += f" of each of {settings.pretrain_seeds} pre-training seeds"
    return f"{paper.title} ({table.name}); measured on {result.data}{protocol}; {same}; percent, ± {over}"


def text_table(table: TableResult) -> TextTable:
    """Return two columns for each of the paper's, in percent: its number, and the measured mean ± deviation; and what
    was run. Below are newer systems, with published numbers in the paper's columns."""
    measured = []
    for row in table.rows:
        texts = [_measured(row, column) for column in table.columns]
        reasons = set(texts) - {NOTHING}
        if len(reasons) == 1 and not any(cell.values for cell in row.cells.values()):
            where = texts.index(reasons.pop())  # a reason for the whole row is written once
            texts = [text if i == where else NOTHING for i, text in enumerate(texts)]
        measured.append(texts)
    newer = PUBLISHED if table.name == "table1" else {}
    columns = [("", [*(row.name or row.label for row in table.rows), *(f"{name}, published" for name in newer)])]
    for i, column in enumerate(table.columns):
        paper = [_paper(TABLES[table.name].rows.get(row.label, {}).get(column)) for row in table.rows]
        paper += [_paper(system.numbers.get(column)) for system in newer.values()]
        if any(text != NOTHING for text in paper):
            columns.append((f"{column} paper".strip(), paper))
        columns.append((f"{column} measured".strip(), [texts[i] for texts in measured] + [NOTHING] * len(newer)))
    columns.append(("run", [*(row.run or NOTHING for row in table.rows), *(one.source for one in newer.values())]))
    header, cells = zip(*columns, strict=True)
    return TextTable(header, tuple(zip(*cells, strict=True)))


def _measured(row: RowResult, column: str) -> str:
    """Return a number, or why there is none."""
    if not row.cells:
        return "failed" if row.error else "not run"
    cell = row.cells.get(column, Measured())
    return cell.absent or percent_with_deviation(cell.mean, cell.deviation)


def _paper(number: Number | None) -> str:
    if number is None:
        return NOTHING
    return f"{number.mean:.2f}" + (f" ± {number.deviation:.2f}" if number.deviation is not None else "")


def write_tables(result: ReproduceResult, folder: Path) -> ReproduceResult:
    """Write ``table.md``, ``table.tex``, ``table.json`` and ``commands.sh``; return the result with their names."""
    rows = [(table, row) for table in result.tables for row in table.rows if row.commands]
    texts = {
        "table.md": "\n".join(_markdown(result)),
        "table.tex": "\n".join(f"% {heading(result, table)}\n{latex(text_table(table))}" for table in result.tables),
        "table.json": json.dumps(_to_dict(result), indent=1, allow_nan=False) + "\n",
        "commands.sh": "#!/bin/sh\n# Run in the folder that `bassl reproduce` was run in.\nset -e\n"
        + script([(table.name, table.protocol, row.label, row.commands) for table, row in rows]),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    return replace(result, files=tuple(folder / name for name in texts))


def script(rows: Sequence[tuple[str, str, str, Sequence[str]]]) -> str:
    """Return shell lines, each once, before the first row that needs it, below a comment that names the row. A row is
    its table, the way to train and test, its label, and its lines."""
    text, written = "", set[str]()
    for table, protocol, label, lines in rows:
        text += "".join(
            f"{line}\n"
            for line in (f"# {table}{f', {protocol}' * bool(protocol)}: {label}", *lines)
            if line not in written
        )
        written.update(lines)
    return text


def _markdown(result: ReproduceResult) -> Iterator[str]:
    settings, epochs = result.settings, result.settings.epochs or result.options.epochs
    yield f"# {settings.table} ({time.strftime('%Y-%m-%d')})\n"
    yield f"{count(settings.seeds, 'seed')}, {count(epochs, 'epoch')} where the paper has 10; in percent.\n"
    for table in result.tables:
        yield from (f"{heading(result, table)}.\n", markdown(text_table(table)))
        notes = [f"- {row.name or row.label}: {row.error or row.note}\n" for row in table.rows if row.error or row.note]
        if notes:
            yield "".join(notes)


def _to_dict(result: ReproduceResult) -> dict[str, Any]:
    """Return the result as plain JSON values; measured numbers from 0 to 1, the paper's in percent."""
    facts = {"schema": SCHEMA, "version": SCHEMA_VERSION, "date": time.strftime("%Y-%m-%d")}
    facts |= {"settings": settings_as_json(result.settings), "recipe": settings_as_json(result.options)}
    facts |= {name: getattr(result, name) for name in ("data", "comparable", "stopped", "failed")}
    tables = []
    for table in result.tables:
        content = asdict(table)
        for row, plain in zip(table.rows, content["rows"], strict=True):
            plain["measured"] = plain.pop("cells")
            for column, cell in row.cells.items():
                plain["measured"][column] |= {"mean": cell.mean, "deviation": cell.deviation}
            plain["paper"] = {
                name: asdict(number) for name, number in TABLES[table.name].rows.get(row.label, {}).items()
            }
        names = {"table": content.pop("name"), "title": TABLES[table.name].title, "way": content.pop("protocol")}
        tables.append({**names, **content})
    return {**facts, "tables": tables}
