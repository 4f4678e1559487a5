"""The statements of an RDF file in the two vocabularies of workflow templates, OPMW and WINGS, in any version.

Terms of the vocabularies that mean different things have different names, so a term's local name is enough. Files mix
the vocabularies, and the namespaces vary by version.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeAlias

from rdflib import RDF, RDFS, BNode, Graph
from rdflib.term import Node

_VOCABULARY = re.compile(r"opmw\.org/ontology/|/workflow\.owl#")
"""The namespaces of the terms of templates."""
_GENERAL = re.compile(
    r"opmw\.org/ontology/|/workflow\.owl#|^https?://www\.w3\.org/|^https?://www\.wings-workflows\.org/ontology/"
    r"|^https?://purl\.org/(net/|dc/)|^https?://openprovenance\.org/|/(ac|dc)/ontology\.owl#"
)
"""The namespaces of classes that are no component and no data type."""
_ID = re.compile(r"""(?<=\s)rdf:ID(\s*=\s*)(["'])""")
_XML = re.compile(rb"\A(\xef\xbb\xbf)?\s*<(\?xml|!DOCTYPE|!--|rdf:RDF)", re.IGNORECASE)
_USES_AS = "uses_as_"
Statement: TypeAlias = tuple[Node, Node, Node]


class Unreadable(ValueError):
    """A file that is no RDF; the message says why."""


class Statements(Graph):
    """A graph that keeps the order of the statements in the file."""

    def __init__(self) -> None:
        super().__init__()
        self._stated: dict[Statement, None] = {}

    def add(self, triple: Statement) -> Self:
        """Add a statement; called by rdflib's parsers."""
        self._stated[triple] = None
        return super().add(triple)

    def __iter__(self) -> Generator[Statement, None, None]:  # noqa: PYI058 - the graph's own signature
        yield from self._stated


class Facts:
    """The statements of one file, by the local name of their property; always in the same order."""

    def __init__(self, graph: Iterable[Statement]) -> None:
        self._objects: dict[str, dict[Node, set[Node]]] = defaultdict(lambda: defaultdict(set))
        self._subjects: dict[str, dict[Node, set[Node]]] = defaultdict(lambda: defaultdict(set))
        # In the order of the file: of several components or data types the first counts.
        self._classes: dict[Node, dict[Node, None]] = defaultdict(dict)
        self._above: dict[Node, set[Node]] = defaultdict(set)
        self._labels: dict[Node, set[str]] = defaultdict(set)
        for subject, verb, value in graph:
            if verb == RDF.type:
                # Some files write the class as text; that counts too.
                self._classes[subject][value] = None
            elif verb == RDFS.subClassOf:
                self._above[subject].add(value)
            elif verb == RDFS.label:
                self._labels[subject].add(str(value))
            elif (term := self._term(verb)) is not None:
                self._objects[term][subject].add(value)
                self._subjects[term][value].add(subject)

    def objects(self, subject: Node, *terms: str) -> list[Node]:
        """The values of any of these properties of a subject."""
        return _sorted(value for term in terms for value in self._objects[term].get(subject, ()))

    def subjects(self, term: str, value: Node) -> list[Node]:
        """The subjects with this value of a property."""
        return _sorted(self._subjects[term].get(value, ()))

    def pairs(self, term: str) -> list[tuple[Node, Node]]:
        """All subjects and values of a property."""
        return [(subject, value) for subject in _sorted(self._objects[term]) for value in self.objects(subject, term)]

    def members(self, term: str) -> list[Node]:
        """The members of a class of the vocabularies."""
        return _sorted(
            node for node, classes in self._classes.items() if any(self._term(kind) == term for kind in classes)
        )

    def is_a(self, subject: Node, term: str) -> bool:
        """True if a subject is a member of a class of the vocabularies."""
        return any(self._term(kind) == term for kind in self._classes.get(subject, ()))

    def classes(self, subject: Node) -> list[str]:
        """The local names of a subject's classes that are not general: its components or data types.

        They are in the order of the file; a class that is above another of them by `subClassOf` is left out.
        """
        specific_classes = [kind for kind in self._classes.get(subject, ()) if not _GENERAL.search(str(kind))]
        above = {kind: self._ancestors(kind) for kind in specific_classes}
        # If two classes are above each other, neither is more specific.
        specific = [
            kind
            for kind in specific_classes
            if not any(kind in above[other] and other not in above[kind] for other in specific_classes)
        ]
        return list(dict.fromkeys(map(local_name, specific)))

    def _ancestors(self, node: Node) -> set[Node]:
        ancestors, left = set[Node](), [node]
        while left:
            new = self._above.get(left.pop(), set()) - ancestors
            ancestors |= new
            left += new
        return ancestors

    def label(self, subject: Node) -> str | None:
        """The label of a subject, if it has one."""
        return min((plain(label) for label in self._labels.get(subject, ()) if label.strip()), default=None)

    def role(self, step: Node, variable: Node) -> str | None:
        """The role in which a step uses a variable, if an extension property states one."""
        return next(
            (
                term.removeprefix(_USES_AS)
                for term in sorted(self._objects)
                if term.startswith(_USES_AS) and variable in self._objects[term].get(step, ())
            ),
            None,
        )

    @staticmethod
    def _term(node: Node) -> str | None:
        name = local_name(node)
        known = _VOCABULARY.search(str(node)) or name.startswith(_USES_AS)
        return name if known and not isinstance(node, BNode) else None


def read_facts(path: Path) -> Facts:
    """Read the statements of a file in RDF/XML or Turtle; raises `Unreadable` if it is neither."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{error.strerror}; choose a readable file") from None
    base = f"http://localhost/{path.stem}"
    if not _XML.match(raw):
        return Facts(_parsed(raw, "turtle", base))
    try:
        return Facts(_parsed(raw, "xml", base))
    except Unreadable:
        # Real files have names that XML forbids, and describe one thing in several places by `rdf:ID`. Read as
        # `rdf:about`, both are what their authors meant.
        repaired = _ID.sub(r"rdf:about\1\2#", raw.decode("utf-8", "replace"))
        return Facts(_parsed(repaired.encode(), "xml", base))


def local_name(node: Node) -> str:
    """The local part of a name, without its namespace.

    >>> from rdflib import URIRef
    >>> local_name(URIRef("http://www.opmw.org/ontology/uses")), local_name(URIRef("http://example.org/a.owl#Sort"))
    ('uses', 'Sort')
    """
    return plain(re.split(r"[#/]", str(node).rstrip("#/"))[-1])


def plain(text: str) -> str:
    """A text without lone surrogates, which Turtle allows and no file can hold."""
    return text.encode("utf-8", "replace").decode()


def _sorted(nodes: Iterable[Node]) -> list[Node]:
    return sorted(set(nodes), key=lambda node: (str(node), type(node).__name__))


def _parsed(raw: bytes, form: str, base: str) -> Statements:
    graph = Statements()
    with _quiet():
        try:
            graph.parse(data=raw, format=form, publicID=base)
        # The parsers raise anything from SyntaxError to AssertionError.
        except Exception as error:  # noqa: BLE001
            reason = " ".join(str(error).split())[:200]
            form = "RDF/XML" if form == "xml" else "Turtle"
            raise Unreadable(f"it cannot be read as {form}: {reason or type(error).__name__}") from None
    return graph


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence rdflib's warnings about ill-typed numbers and names with spaces; real files are full of them."""
    log = logging.getLogger("rdflib.term")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
