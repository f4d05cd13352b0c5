"""``bassl baseline``: a system that the paper compares with, on the videos of an index."""

from __future__ import annotations

from bassl_cli import console
from bassl_cli.options import with_settings
from pipelines.files import check_output
from pipelines.stages.settings import BaselineSettings


@with_settings(arguments=("system",))
def baseline(settings: BaselineSettings, table: console.Table = None, as_json: console.Json = False) -> None:
    """Find and score scenes with one of the systems of the paper's Table 1.

    Settings that the paper of a system leaves open are chosen on the training splits, never on the videos that are
    scored.

    Example: bassl baseline graph-cut --index data/index.h5
    """
    from pipelines.stages.baseline import baseline as stage  # start-up time: numpy
    from pipelines.stages.score.tables import check_table, save_table, table_of  # start-up time: numpy

    if table is not None:
        check_table(table)
        check_output(table, (settings.data.index, *settings.data.features, *settings.extra))
    with console.stage_progress() as progress:
        result = stage(settings, progress)
    if as_json:
        console.print_json(result.to_dict())
    else:
        console.show_table(*table_of(result))
    if table is not None:
        save_table(table, result)
    console.note(*result.notes)
    console.print_info(f"{settings.system}: {console.count(len(result.videos), 'video')}")
