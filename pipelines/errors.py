"""The errors that a user can cause.

Anything else that is raised is a bug.
"""


class BasslError(Exception):
    """Unusable input or settings. The message is one line: what is wrong, with which file, and what to do."""


class StoreError(BasslError):
    """A file of ours (HDF5 store, model, scenes.json) is damaged, of another version, or not one at all."""


class VideoError(BasslError):
    """A video that cannot be read."""


class DatasetError(BasslError):
    """A label, shot list or feature file that cannot be read or contradicts itself."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text, for a message of one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
