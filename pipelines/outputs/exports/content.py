"""What the function of a format takes and returns, and XML documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from pipelines.scenes import Scene, SceneData, Shot


class Content(NamedTuple):
    """The text of a file, and one line each on why its readers may refuse it or show other times."""

    text: str
    warnings: tuple[str, ...] = ()


def listed(scenes: SceneData, shots: bool) -> Sequence[Scene | Shot]:
    """The scenes of a video in order, or with ``shots`` its shots; gaps only at dropped scenes."""
    return scenes.shots if shots else scenes.scenes


def score_of(item: Scene | Shot) -> float:
    """The confidence of a scene, or the probability that a scene ends with the shot."""
    return item.score if isinstance(item, Shot) else item.confidence


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
