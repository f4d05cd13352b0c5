"""Running the lines of rows, and the tables of their results as Markdown, LaTeX and JSON."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile

import torch

from pipelines.errors import BasslError, BasslWarning, count
from pipelines.evaluation.bootstrap import JSON_KEYS
from pipelines.evaluation.paper_tables import TABLES, Number
from pipelines.files import write_atomically
from pipelines.outputs.tables import NOTHING, TextTable, latex, markdown, mean_and_deviation, percent_with_deviation
from pipelines.processes import start_module
from pipelines.progress import ReportProgress
from pipelines.stages.reproduce import Measured, ReproduceResult, ReproduceSettings, RowResult, TableResult
from pipelines.stages.reproduce.planning import Line, PlannedRow, find_data, planned_rows, script
from pipelines.training import STOPPED, stop_signals
from pipelines.training.distributed import check_gpus

_EPOCH = re.compile(r"(?:seed (\d+)/(\d+) +)?epoch (\d+)/(\d+) ")


class StoppedError(Exception):
    """A signal ended the command; what it has done so far is kept."""


def measure_tables(settings: ReproduceSettings, progress: ReportProgress) -> ReproduceResult:
    """Measure and write tables, see :func:`pipelines.stages.reproduce.reproduce`."""
    if settings.machines.nodes > 1:
        raise BasslError("reproduce runs on one machine; run the lines of --plan on all, and it takes what they made")
    check_gpus(settings.machines)
    ways, again = find_data(settings), settings.overwrite
    planned, data = planned_rows(settings, ways), ways[0]
    if data.kind == "movienet" and settings.machines.gpus is None and not torch.cuda.is_available():
        raise BasslError("MovieNet needs a GPU; give other `data`, or `gpus=0` to run on the CPU anyway")
    done: set[Line] = set()  # in this call, for any row
    tables, failed, stopped = [], list[str](), False
    for (name, protocol), group in groupby(planned, key=lambda row: (row.table, row.protocol)):
        columns, rows = dict.fromkeys(TABLES[name].columns), []
        for row in group:
            columns |= dict.fromkeys(row.finals)
            cells, error = dict[str, Measured](), ""
            try:
                if row.wanted and not stopped:
                    finals = [final for final, metric in row.measuring if again or kept_values(final, metric) is None]
                    for line in (line for final in finals for line in final.chain if line not in done):
                        run_line(line, again, partial(progress, f"{row.spec.label}: {line.command}"))
                        done.add(line)
                cells = kept_cells(row)
            except StoppedError:
                stopped = True  # finished rows are still shown
            except BasslError as problem:
                error = str(problem)
                failed.append(f"{name}, {row.spec.label}: {error}")
            rows.append(RowResult(row.spec.label, cells, row.run, row.spec.note, error))
        tables.append(TableResult(name, protocol, tuple(columns), tuple(rows)))
    result = ReproduceResult(tuple(tables), data.title, data.comparable, settings, tuple(failed), stopped)
    return _write_tables(result, planned, settings.output / settings.table / data.home.name)


def kept_cells(row: PlannedRow) -> dict[str, Measured]:
    """Return the numbers of a row by column; none without a file. Raises BasslError for a run that was not tested."""
    cells = {}
    for column, final in row.finals.items():
        if isinstance(final, str):
            cells[column] = Measured(absent=final)
            continue
        if (values := kept_values(final, row.spec.cells[column][1])) is None:
            return {}
        cells[column] = Measured(tuple(values), "" if values else "not defined")
    return cells


def kept_values(line: Line, metric: str) -> list[float] | None:
    """Return a metric of each seed from what a line of finetune, score or baseline printed; empty if it is not defined,
    None if the file is missing or damaged. Raises BasslError for a run that was not tested."""
    assert line.result is not None
    try:
        content = json.loads(line.result.read_bytes())
        is_run = line.command == "finetune"
        if is_run and content["summary_of"] != "test":
            raise BasslError(f"{line.output}: was not tested, because the test split has no labeled scene ends")
        if metric == "chance":  # scores without information have the share of scene ends among the shots as their AP
            counts = content["index"]["test"] if is_run else content
            return [counts["scene_ends"] / counts["shots"]] if counts["shots"] else []
        if is_run:
            names = ("ap", "auc", "f1", "miou") if metric == "sum" else (metric,)
            tests = (seed["test"] for seed in content["seeds"])
            return [sum(test[name] for name in names) for test in tests if test.keys() >= {*names}]
        if metric.startswith("nmi"):
            nmi = {f"nmi_{length}": scenes["mean"] for length, scenes in content["representation"]["nmi"].items()}
            if nmi.get("nmi_8") and nmi.get("nmi_32"):
                nmi["nmi_change"] = (nmi["nmi_32"] - nmi["nmi_8"]) / nmi["nmi_8"]
            value = nmi.get(metric)
        else:
            key = JSON_KEYS.get(metric, metric)
            if key in content["seeds"]:
                return list(content["seeds"][key]["values"].values())
            one = content["metrics"][key]
            value = one["videos"] if one["pooled"] is None else one["pooled"]
        return [] if value is None else [value]
    except (OSError, ValueError, ArithmeticError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def run_line(line: Line, overwrite: bool, report: Callable[[float, float | None], None]) -> None:
    """Run a line whose needs are done, unless its file is there. Raises BasslError, or StoppedError after a signal."""
    words = list[str]()
    for word in line.words:
        words += sorted(map(str, Path(word).parent.glob("[!.]*"))) if word.endswith("/*") else [word]
    if line.command == "write-split":
        printed = f"{words[-1]}\n"
    elif line.output is not None and line.output.is_file() and not overwrite:
        return
    else:
        if overwrite and "--resume" in words:
            words[words.index("--resume")] = "--overwrite"
        elif overwrite and line.command == "extract-keyframes":
            words.append("--overwrite")
        printed = run_command(words, report)
    if line.result is not None:
        write_atomically(line.result, printed.encode())


def run_command(words: list[str], report: Callable[[float, float | None], None]) -> str:
    """Run a command line as a process, and return what it printed. ``report`` is called with the epochs done and all.
    SIGINT and SIGTERM are passed on. Raises BasslError with the command's reason, StoppedError after a signal."""
    if words[0] == "bassl":  # without the user's file of defaults, which would change numbers
        each_epoch = ["--verbose"] if words[1] in ("pretrain", "finetune") else []
        module, arguments = "bassl_cli", ["--config", os.devnull, *words[1:], *each_epoch]
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
            raise BasslError(reason or f"{shlex.join(words)}: ended with exit code {child.returncode}; {last}")
        output.seek(0)
        return output.read()


def heading(result: ReproduceResult, table: TableResult) -> str:
    """Return one line: the table, the data, and whether the paper's numbers were measured on the same data."""
    paper, settings = TABLES[table.name], result.settings
    same = "the paper's data" if result.comparable else f"the paper's column is {paper.data}: not comparable"
    over = f"standard deviation over {count(settings.seeds, 'fine-tuning or training seed')}"
    data = ", ".join(filter(None, (result.data, table.protocol)))
    return f"{paper.title} ({table.name}); measured on {data}; {same}; percent, ± {over}"


def text_table(table: TableResult) -> TextTable:
    """Return the paper's number and the measured mean ± deviation for each column, in percent; and what was run."""
    columns = [("", [row.label for row in table.rows])]
    for column in table.columns:
        paper = [_printed(TABLES[table.name].rows.get(row.label, {}).get(column)) for row in table.rows]
        if any(text != NOTHING for text in paper):
            columns.append((f"{column} paper".strip(), paper))
        cells = [row.cells.get(column, Measured()) for row in table.rows]
        measured = [cell.absent or percent_with_deviation(*mean_and_deviation(cell.values)) for cell in cells]
        columns.append((f"{column} measured".strip(), measured))
    runs = [row.run or NOTHING if row.cells else "failed" if row.error else "not run" for row in table.rows]
    columns.append(("run", runs))
    header, texts = zip(*columns, strict=True)
    return TextTable(header, tuple(zip(*texts, strict=True)))


def screen_tables(table: TableResult) -> list[TextTable]:
    """Return the columns of the table in three, which fit a terminal: the paper's, the measured, and what was run."""
    header, rows = text_table(table)
    tables = []
    for kind in ("paper", "measured", "run"):
        columns = [0, *(column for column, name in enumerate(header) if name.endswith(kind))]
        names = (kind, *(header[column].removesuffix(kind).strip() for column in columns[1:]))
        cells = [tuple(row[column] for column in columns) for row in rows]
        tables.append(TextTable(names, tuple(row for row in cells if {*row[1:]} - {NOTHING})))
    return tables


def _printed(number: Number | None) -> str:
    if number is None:
        return NOTHING
    return f"{number.mean:.2f}" + (f" ± {number.deviation:.2f}" if number.deviation is not None else "")


def _write_tables(result: ReproduceResult, planned: Sequence[PlannedRow], folder: Path) -> ReproduceResult:
    """Write ``table.md``, ``table.tex``, ``table.json`` and ``commands.sh``; return the result with their names."""
    settings, date = result.settings, time.strftime("%Y-%m-%d")
    seeds, epochs = count(settings.seeds, "seed"), count(settings.epochs or 10, "epoch")
    parts = [f"# {settings.table} ({date})\n\n{seeds}, {epochs} where the paper has 10; in percent.\n"]
    for table in result.tables:
        notes = [f"- {row.label}: {row.error or row.note}\n" for row in table.rows if row.error or row.note]
        parts += [f"{heading(result, table)}.\n", markdown(text_table(table)), "".join(notes)]
    texts = {
        "table.md": "\n".join(parts),
        "table.tex": "\n".join(f"% {heading(result, table)}\n{latex(text_table(table))}" for table in result.tables),
        "commands.sh": "#!/bin/sh\n# Run in the folder that `bassl reproduce` was run in.\nset -e\n" + script(planned),
    }
    result = replace(result, files=tuple(folder / name for name in (*texts, "table.json")))
    content = {"schema": "bassl.reproduce", "version": 2, "date": date, **asdict(result)}
    texts["table.json"] = json.dumps(content, indent=1, default=str) + "\n"
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    return result
