"""The stages of video scene segmentation, as a library: typed, silent, importable without the command line."""

__version__ = "0.1.0"
