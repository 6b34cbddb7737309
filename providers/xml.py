"""XML from outside: no entities, no external references, and tags without their namespaces, which change by version."""

from __future__ import annotations

from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from providers.base import SchemaError, Transient

_MOST_ELEMENTS = 500_000


def parse(text: str, url: str) -> Element:
    """The root. ``Transient`` for what is no XML (a cut body), ``SchemaError`` for what no source needs to send."""
    try:
        root: Element = fromstring(text, forbid_dtd=True)
    except DefusedXmlException as error:
        raise SchemaError(f"{url} sent XML with {type(error).__name__}, which is refused") from None
    except (ParseError, ValueError, RecursionError) as error:
        raise Transient(f"{url} sent what is no XML: {error}") from None
    for count, element in enumerate(root.iter()):
        if count >= _MOST_ELEMENTS:
            raise SchemaError(f"{url} sent more than {_MOST_ELEMENTS} XML elements")
        if isinstance(element.tag, str):
            element.tag = element.tag.rpartition("}")[2]
    return root


def text_of(element: Element, path: str) -> str:
    """The stripped text of the first element at ``path``, empty where there is none."""
    return (element.findtext(path) or "").strip()
