"""Cutting videos: clips copied without encoding, clips encoded to the frame, copies with chapters."""

from pipelines.video.cutting.copying import copy_scenes, copy_with_chapters
from pipelines.video.cutting.encoding import H264, encode_scenes
from pipelines.video.cutting.muxing import suffix_for

__all__ = ["H264", "copy_scenes", "copy_with_chapters", "encode_scenes", "suffix_for"]
