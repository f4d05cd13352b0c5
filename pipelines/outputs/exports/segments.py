"""The segments of an export: the scenes of a video, or its shots, with their names."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PureWindowsPath
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from pipelines.scenes import Scene, SceneData, Shot, Transition


@dataclass(frozen=True)
class Segment:
    """One scene or shot, numbered from 1. Ranges are half-open, in frames as counted and in seconds from the video's
    first frame; ``score`` is a scene's confidence, or the probability that a scene ends with the shot."""

    number: int
    name: str
    start_frame: int
    end_frame: int
    start: float
    end: float
    score: float
    transition: Transition | None  # at its end


def segments_of(scenes: SceneData, shots: bool = False) -> tuple[Segment, ...]:
    """The scenes of a video in order, or with ``shots`` its shots; gaps only at dropped scenes."""
    listed: tuple[Scene | Shot, ...] = scenes.shots if shots else scenes.scenes
    return tuple(
        Segment(
            number=item.index + 1,
            name=one_line((isinstance(item, Scene) and item.name) or "")
            or f"{'Shot' if shots else 'Scene'} {item.index + 1}",
            start_frame=item.start_frame,
            end_frame=item.end_frame,
            start=item.start,
            end=item.end,
            score=item.score if isinstance(item, Shot) else item.confidence,
            transition=item.transition if isinstance(item, Shot) else scenes.shots[item.end_shot - 1].transition,
        )
        for item in listed
    )


def video_name(scenes: SceneData) -> str:
    """The file name of the video, without its folder, on one line."""
    return one_line(PureWindowsPath(scenes.video.path).name)


def one_line(text: str) -> str:
    """Text that is safe on a line and in XML 1.0: line ends, control characters and halves of surrogate pairs (Python's
    form of file names that are not UTF-8) become spaces or U+FFFD."""

    def safe(character: str) -> str:
        category = unicodedata.category(character)
        if category in ("Cc", "Zl", "Zp"):
            return " "
        return "\ufffd" if category == "Cs" or ord(character) & 0xFFFE == 0xFFFE else character

    return "".join(map(safe, text)).strip()


def add_element(parent: Element, tag: str, text: object = None, **attributes: str) -> Element:
    """Add an element to ``parent``, with text unless it is None."""
    element = ElementTree.SubElement(parent, tag, attributes)
    if text is not None:
        element.text = str(text)
    return element


def add_elements(parent: Element, contents: Mapping[str, object]) -> None:
    """Add elements to ``parent``, by tag, each with a text, or with elements if its content is a mapping."""
    for tag, content in contents.items():
        if isinstance(content, Mapping):
            add_elements(add_element(parent, tag), content)
        else:
            add_element(parent, tag, content)


def document(root: Element, doctype: str = "") -> str:
    """The document of a root element, indented."""
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n' + f"<!DOCTYPE {doctype}>\n" * bool(doctype)
    return f"{head}{ElementTree.tostring(root, encoding='unicode')}\n"
