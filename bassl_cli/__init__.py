"""The command line of bassl."""

from pipelines.processes import collect_less

collect_less()  # before the rest is imported
