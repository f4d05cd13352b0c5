"""The stages of video scene segmentation and what they are made of; the public API of it all is the package `bassl`."""

__version__ = "0.3.0"
