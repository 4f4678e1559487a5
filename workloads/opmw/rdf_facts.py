"""What an RDF file states in the two vocabularies of workflow templates, whatever namespaces its version uses.

OPMW and WINGS name their terms differently where they mean different things, so that a term's own name is enough: files
mix the vocabularies, and their namespaces vary by version.
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
"""Where the terms of templates are found."""
_GENERAL = re.compile(
    r"opmw\.org/ontology/|/workflow\.owl#|^https?://www\.w3\.org/|^https?://www\.wings-workflows\.org/ontology/"
    r"|^https?://purl\.org/(net/|dc/)|^https?://openprovenance\.org/|/(ac|dc)/ontology\.owl#"
)
"""Where classes come from that say nothing about which component or data type something is."""
_ID = re.compile(r"""(?<=\s)rdf:ID(\s*=\s*)(["'])""")
_XML = re.compile(rb"\A(\xef\xbb\xbf)?\s*<(\?xml|!DOCTYPE|!--|rdf:RDF)", re.IGNORECASE)
_USES_AS = "uses_as_"
Statement: TypeAlias = tuple[Node, Node, Node]


class Unreadable(ValueError):
    """A file that holds no RDF; says why."""


class Statements(Graph):
    """A graph that gives its statements in the order in which the file has them."""

    def __init__(self) -> None:
        super().__init__()
        self._stated: dict[Statement, None] = {}

    def add(self, triple: Statement) -> Self:
        """Add a statement; called by rdflib's parsers."""
        self._stated[triple] = None
        return super().add(triple)

    def __iter__(self) -> Generator[Statement, None, None]:  # noqa: PYI058 - as the graph has it
        yield from self._stated


class Facts:
    """The statements of one file, by the own name of their property; given in the same order each time."""

    def __init__(self, graph: Iterable[Statement]) -> None:
        self._objects: dict[str, dict[Node, set[Node]]] = defaultdict(lambda: defaultdict(set))
        self._subjects: dict[str, dict[Node, set[Node]]] = defaultdict(lambda: defaultdict(set))
        # In the order in which the file has them: of several components or data types the first counts.
        self._classes: dict[Node, dict[Node, None]] = defaultdict(dict)
        self._above: dict[Node, set[Node]] = defaultdict(set)
        self._labels: dict[Node, set[str]] = defaultdict(set)
        for subject, verb, value in graph:
            if verb == RDF.type:
                # Also where the class is written as text, as some files do.
                self._classes[subject][value] = None
            elif verb == RDFS.subClassOf:
                self._above[subject].add(value)
            elif verb == RDFS.label:
                self._labels[subject].add(str(value))
            elif (term := self._term(verb)) is not None:
                self._objects[term][subject].add(value)
                self._subjects[term][value].add(subject)

    def objects(self, subject: Node, *terms: str) -> list[Node]:
        """What is stated of something by any of these properties."""
        return _sorted(value for term in terms for value in self._objects[term].get(subject, ()))

    def subjects(self, term: str, value: Node) -> list[Node]:
        """Of what something is stated by a property."""
        return _sorted(self._subjects[term].get(value, ()))

    def pairs(self, term: str) -> list[tuple[Node, Node]]:
        """All that is stated by a property."""
        return [(subject, value) for subject in _sorted(self._objects[term]) for value in self.objects(subject, term)]

    def members(self, term: str) -> list[Node]:
        """What is of a class of the vocabularies."""
        return _sorted(each for each, classes in self._classes.items() if any(self._term(of) == term for of in classes))

    def is_a(self, subject: Node, term: str) -> bool:
        """Whether something is of a class of the vocabularies."""
        return any(self._term(each) == term for each in self._classes.get(subject, ()))

    def classes(self, subject: Node) -> list[str]:
        """The own names of the classes of something that are not general: its components or data types.

        Those that the file declares first come first; one that lies above another of them by its `subClassOf` is left
        out.
        """
        found = [each for each in self._classes.get(subject, ()) if not _GENERAL.search(str(each))]
        above = {each: self._ancestors(each) for each in found}
        # Of classes that lie above each other none is the more specific one.
        specific = [
            each for each in found if not any(each in above[other] and other not in above[each] for other in found)
        ]
        return list(dict.fromkeys(map(own_name, specific)))

    def _ancestors(self, node: Node) -> set[Node]:
        found, left = set[Node](), [node]
        while left:
            new = self._above.get(left.pop(), set()) - found
            found |= new
            left += new
        return found

    def label(self, subject: Node) -> str | None:
        """What something is called, where the file says so."""
        return min((plain(label) for label in self._labels.get(subject, ()) if label.strip()), default=None)

    def role(self, step: Node, variable: Node) -> str | None:
        """As what a step uses a variable, where one is said by an extension property of its own."""
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
        name = own_name(node)
        known = _VOCABULARY.search(str(node)) or name.startswith(_USES_AS)
        return name if known and not isinstance(node, BNode) else None


def read_facts(path: Path) -> Facts:
    """What a file states, in RDF/XML or Turtle; `Unreadable` where it is neither."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{error.strerror}; name a file that can be read") from None
    base = f"http://localhost/{path.stem}"
    if not _XML.match(raw):
        return Facts(_parsed(raw, "turtle", base))
    try:
        return Facts(_parsed(raw, "xml", base))
    except Unreadable:
        # Real files have names that XML forbids, and describe one thing in several places by `rdf:ID`; read as
        # `rdf:about`, both mean what their authors meant.
        repaired = _ID.sub(r"rdf:about\1\2#", raw.decode("utf-8", "replace"))
        return Facts(_parsed(repaired.encode(), "xml", base))


def own_name(node: Node) -> str:
    """The part of a name that tells it apart within its namespace.

    >>> from rdflib import URIRef
    >>> own_name(URIRef("http://www.opmw.org/ontology/uses")), own_name(URIRef("http://example.org/a.owl#Sort"))
    ('uses', 'Sort')
    """
    return plain(re.split(r"[#/]", str(node).rstrip("#/"))[-1])


def plain(text: str) -> str:
    """A text without what no file can hold: Turtle can write half a surrogate pair."""
    return text.encode("utf-8", "replace").decode()


def _sorted(nodes: Iterable[Node]) -> list[Node]:
    return sorted(set(nodes), key=lambda node: (str(node), type(node).__name__))


def _parsed(raw: bytes, form: str, base: str) -> Statements:
    graph = Statements()
    with _quiet():
        try:
            graph.parse(data=raw, format=form, publicID=base)
        # The parsers raise whatever comes, from SyntaxError to AssertionError, and a bad file is to be told of.
        except Exception as error:  # noqa: BLE001
            reason = " ".join(str(error).split())[:200]
            form = "RDF/XML" if form == "xml" else "Turtle"
            raise Unreadable(f"it cannot be read as {form}: {reason or type(error).__name__}") from None
    return graph


@contextmanager
def _quiet() -> Iterator[None]:
    """Have rdflib not log what it finds odd: ill-typed numbers, names with spaces. Real files are full of them."""
    log = logging.getLogger("rdflib.term")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
