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
