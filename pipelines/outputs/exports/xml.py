"""XML documents: elements with text, and the text of a whole document."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element


def add_element(parent: Element, tag: str, text: object = None, **attributes: str) -> Element:
    """Add an element to ``parent``, with text unless it is None."""
    element = ElementTree.SubElement(parent, tag, attributes)
    if text is not None:
        element.text = str(text)
    return element


def add_texts(parent: Element, texts: Mapping[str, object]) -> None:
    """Add elements with these texts, by tag, to ``parent``."""
    for tag, text in texts.items():
        add_element(parent, tag, text)


def document(root: Element, doctype: str = "") -> str:
    """The document of a root element, indented."""
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n' + f"<!DOCTYPE {doctype}>\n" * bool(doctype)
    return f"{head}{ElementTree.tostring(root, encoding='unicode')}\n"
