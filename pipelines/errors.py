"""Exceptions for errors that a user can cause; any other exception is a bug."""


class BasslError(Exception):
    """Unusable input or settings. The message is one line: what is wrong, with which file, and what to do."""


class StoreError(BasslError):
    """A file that bassl wrote (HDF5 store, model, scenes.json) is damaged, of another version, or of another kind."""


class VideoError(BasslError):
    """A video that cannot be read."""


class DatasetError(BasslError):
    """A label, shot list or feature file that cannot be read or contradicts itself."""


class UnexpectedError(BasslError):
    """An exception in a child process that is a bug: its type and text, and where it was raised."""


def first_line(error: BaseException) -> str:
    """The first line of an exception's text, or its type where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
