"""Reading published templates: both vocabularies, and whatever real files hold."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdflib import RDF, RDFS, BNode, Graph, Literal, URIRef
from rdflib.term import Node

from dags.canonical import canonicalise
from engine import installed_catalogue
from workloads.opmw.document_encoder import Inputs, SourcesBy, encode, registered, sources_of
from workloads.opmw.rdf_facts import Facts, Statements
from workloads.opmw.template_import import read_templates, templates_in
from workloads.opmw.templates import FindingOutcome, ImportFinding, Template, TemplateStep, Variable

FILES = Path(__file__).parent / "templates"
OPMW = "http://www.opmw.org/ontology/"
WINGS = "http://www.wings-workflows.org/ontology/workflow.owl#"
PREFIXES = f"""
@prefix o: <{OPMW}> .
@prefix w: <{WINGS}> .
@prefix c: <http://example.org/library.owl#> .
@prefix : <http://example.org/t.owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""


def read(turtle: str) -> tuple[tuple[Template, ...], tuple[ImportFinding, ...]]:
    return templates_in(Facts(Statements().parse(data=PREFIXES + turtle, format="turtle")), "t.ttl")


def summaries(findings: tuple[ImportFinding, ...]) -> list[str]:
    return [f"{finding.template}: {finding.outcome}: {finding.reason}" for finding in findings]


def test_opmw_template() -> None:
    """OPMW's steps, variables and parameters become a template, named by their labels, else without its prefix."""
    templates, findings = read_templates(FILES / "words.ttl")
    expected = Template(
        name="WordCount",
        steps=(
            TemplateStep(name="count", component="Count", uses=("pieces",), gives=("counts",)),
            TemplateStep(
                name="split", component="Split", uses=("document",), gives=("pieces",), parameters={"pieceSize": 64}
            ),
        ),
        variables=(
            Variable(name="pieces", data_type="Text"),
            Variable(name="counts", data_type="Table"),
            Variable(name="document", data_type="Text"),
        ),
    )
    assert expected == templates[1]
    assert () == findings


def test_template_declared_by_text() -> None:
    """A class that is written as text counts, and names that differ only in case are two templates."""
    templates, _ = read_templates(FILES / "words.ttl")
    assert ["WORDCOUNT", "WordCount"] == [each.name for each in templates]


def test_wings_template() -> None:
    """WINGS' nodes and links become the same records, through names that XML forbids and things described twice."""
    (template,), findings = read_templates(FILES / "model.owl")
    expected = Template(
        name="Sample Then Model",
        steps=(
            TemplateStep(
                name="2nd", component="Learn", uses=("some",), gives=("model",), parameters={"randomSeed": 0.5}
            ),
            TemplateStep(name="Sampler", component="Sample", uses=("all",), gives=("some",)),
        ),
        variables=(
            Variable(name="some", data_type=None),
            Variable(name="model", data_type=None),
            Variable(name="all", data_type="Instances"),
        ),
    )
    assert expected == template
    assert [
        "Sample Then Model: repaired: link 'astray' was left out: 'nowhere' is no step of the template",
        "Sample Then Model: repaired: link 'halved' was left out: it has no destination",
    ] == summaries(findings)


def test_mixed_vocabularies() -> None:
    """One template may be said half in OPMW, half in WINGS; a link without a variable joins its ends all the same."""
    (template,), findings = read(
        """
        :t a o:WorkflowTemplate ; w:hasNode :one .
        :two o:isStepOfTemplate :t ; a c:Plot .
        :one w:hasComponent :made . :made a c:Sort .
        :link a w:InOutLink ; w:hasOriginNode :one ; w:hasDestinationNode :two .
        :one o:uses :given .
        """
    )
    assert {"one": [], "two": ["one"]} == template.parents()
    assert ["Sort", "Plot"] == [step.component for step in template.steps]
    assert () == findings


def test_links_join_their_own_ends() -> None:
    """A variable that enters by one link and is generated along another joins nothing: there is no circle."""
    (template,), findings = read(
        """
        :t a w:WorkflowTemplate ; w:hasNode :a, :b, :c ; w:hasLink :in, :up, :down .
        :in a w:InputLink ; w:hasVariable :V ; w:hasDestinationNode :a .
        :up a w:InOutLink ; w:hasVariable :mid ; w:hasOriginNode :a ; w:hasDestinationNode :b .
        :down a w:InOutLink ; w:hasVariable :V ; w:hasOriginNode :b ; w:hasDestinationNode :c .
        :a a c:A . :b a c:B . :c a c:C . :V a c:Table .
        """
    )
    assert {"a": [], "b": ["a"], "c": ["b"]} == template.parents()
    # The source has the variable's name, whatever else is called so.
    assert [("V", "Table"), ("mid", None), ("V-2", "Table")] == [
        (each.name, each.data_type) for each in template.variables
    ]
    assert ("V",) == template.steps[0].uses
    assert () == findings


def test_links_of_one_variable_from_several_steps() -> None:
    """Each step takes from where its own links lead, from all of them; what OPMW adds is nothing new."""
    (template,), _ = read(
        """
        :t w:hasNode :a, :b, :c, :d, :e ; w:hasLink :ac, :bd, :be, :ae .
        :ac w:hasVariable :V ; w:hasOriginNode :a ; w:hasDestinationNode :c .
        :bd w:hasVariable :V ; w:hasOriginNode :b ; w:hasDestinationNode :d .
        :be w:hasVariable :V ; w:hasOriginNode :b ; w:hasDestinationNode :e .
        :ae w:hasVariable :V ; w:hasOriginNode :a ; w:hasDestinationNode :e .
        :V o:isGeneratedBy :a, :b . :c o:uses :V . :d o:uses :V .
        """
    )
    assert {"a": [], "b": [], "c": ["a"], "d": ["b"], "e": ["a", "b"]} == template.parents()


def test_variables_join_where_links_are_lacking() -> None:
    """What a step is said to use, and no link leads to it, comes from all that generate it, by links or by OPMW."""
    (template,), _ = read(
        """
        :t w:hasNode :a, :b, :c, :d ; w:hasLink :ac, :v .
        :ac w:hasVariable :V ; w:hasOriginNode :a ; w:hasDestinationNode :c .
        :v w:hasVariable :W ; w:hasDestinationNode :d .
        :V o:isGeneratedBy :b . :d o:uses :V .
        """
    )
    assert {"a": [], "b": [], "c": ["a"], "d": ["a", "b"]} == template.parents()
    assert {"W"} == {each.name for each in template.variables} - set(template.givers())


@pytest.mark.parametrize(
    ("above", "expected", "repaired"),
    [
        ("", "Zebra", 1),
        ("c:Horse rdfs:subClassOf c:Animal . c:Animal rdfs:subClassOf c:Zebra .", "Horse", 0),
        ("c:Horse rdfs:subClassOf c:Zebra . c:Zebra rdfs:subClassOf c:Horse .", "Zebra", 1),
    ],
)
def test_several_data_types(above: str, expected: str, repaired: int) -> None:
    """The most specific counts where the file says which that is, else the first that is declared."""
    (template,), findings = read(
        f":t a w:WorkflowTemplate ; w:hasNode :s . :s a c:Sort ; o:uses :in . :in a c:Zebra, c:Horse . {above}"
    )
    assert [expected] == [variable.data_type for variable in template.variables]
    assert repaired == len(findings)


def test_odd_templates() -> None:
    """What has no steps, no links or a circle is skipped; what can be understood is repaired; each is reported."""
    templates, findings = read_templates(FILES / "odd.ttl")
    assert ["hidden"] == [each.name for each in templates]
    assert [
        "empty: skipped: it has no steps",
        "loose: skipped: it has steps, but no data that they use or generate",
        "round: skipped: its steps form a cycle: two > one > two",
        "hidden: repaired: it is not declared as a template, but steps say that they belong to it",
        "hidden: repaired: step 'one' uses the text 'nonsense'; it was left out",
        (
            "hidden: repaired: 'hidden_lost' is generated by 'gone', which is no step of the template; "
            "it comes from outside"
        ),
        "hidden: repaired: step 'one' has no component; its own name is taken",
        "hidden: repaired: step 'two' has 2 components, Plot, Print; the first is taken",
        "hidden: noted: it has 2 parts that no link joins",
    ] == summaries(findings)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("torn.owl", "it cannot be read as RDF/XML"),
        ("library.ttl", "it declares no template"),
        ("missing.ttl", "No such file or directory; choose a readable file"),
    ],
)
def test_unfit_file(file: str, reason: str) -> None:
    """A file without templates, without RDF, or that is not there gives none, and one reason."""
    templates, (finding,) = read_templates(FILES / file)
    assert () == templates
    assert (FindingOutcome.SKIPPED, reason) == (finding.outcome, finding.reason[: len(reason)])


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("7", 7),
        ("true", True),
        ('"0.25"^^<http://www.w3.org/2001/XMLSchema#float>', 0.25),
        ('"many"^^<http://www.w3.org/2001/XMLSchema#int>', "many"),
        ("9007199254740993", "9007199254740993"),
        ('"NaN"^^<http://www.w3.org/2001/XMLSchema#double>', "nan"),
        (r'"\uD800"', "?"),
        ('"2020-01-01"^^<http://www.w3.org/2001/XMLSchema#date>', "2020-01-01"),
    ],
)
def test_parameter_value(written: str, value: object) -> None:
    """A parameter's value is what JSON can say of it exactly, else its text."""
    (template,), _ = read(f":t w:hasNode :s . :s o:uses :p, :in . :p w:hasParameterValue {written} .")
    assert {"p": value} == template.steps[0].parameters


def test_parameter_called_by_id() -> None:
    """A parameter is called as its component does: by the id of the role that its port has, where there is one."""
    (template,), _ = read(
        """
        :t w:hasNode :s ; w:hasLink :data, :value .
        :data w:hasVariable :in ; w:hasDestinationNode :s .
        :value w:hasVariable :p ; w:hasDestinationNode :s ; w:hasDestinationPort :port .
        :port w:satisfiesRole :s_word_role . :s_word_role w:hasRoleID "word" .
        :p a w:ParameterVariable ; w:hasParameterValue "great" .
        """
    )
    assert {"word": "great"} == template.steps[0].parameters


def test_generated_parameter() -> None:
    """What a step generates is data even where it is called a parameter; what nothing generates is none."""
    (template,), _ = read(
        """
        :t w:hasNode :one, :two . :one o:uses :given, :in . :two o:uses :made . :made o:isGeneratedBy :one .
        :made a o:ParameterVariable . :given a o:ParameterVariable .
        """
    )
    assert {"one": [], "two": ["one"]} == template.parents()
    assert {"in", "made"} == {variable.name for variable in template.variables}


NODES: st.SearchStrategy[Node] = st.sampled_from(
    [*(URIRef(f"http://example.org/n{number}") for number in range(6)), BNode("b"), Literal("text"), Literal(3)]
)
PROPERTIES = st.sampled_from(
    [
        *(URIRef(OPMW + name) for name in ("isStepOfTemplate", "isParameterOfTemplate", "uses", "isGeneratedBy")),
        *(URIRef(WINGS + name) for name in ("hasNode", "hasLink", "hasComponent", "hasComponentBinding")),
        *(URIRef(WINGS + name) for name in ("hasOriginNode", "hasDestinationNode", "hasVariable")),
        *(URIRef(WINGS + name) for name in ("hasDestinationPort", "satisfiesRole", "hasParameterValue")),
        RDFS.label,
    ]
)
CLASSES = st.sampled_from(
    [
        URIRef(OPMW + "WorkflowTemplate"),
        Literal(WINGS + "WorkflowTemplate"),
        *(URIRef(WINGS + name) for name in ("InOutLink", "InputLink", "ParameterVariable")),
        URIRef("http://example.org/library.owl#Sort"),
        URIRef("http://example.org/library.owl#iterations"),
    ]
)
SUBJECTS = NODES.filter(lambda node: not isinstance(node, Literal))
STATEMENTS = st.lists(
    st.one_of(
        st.tuples(SUBJECTS, PROPERTIES, NODES),
        st.tuples(SUBJECTS, st.just(RDF.type), CLASSES),
    ),
    max_size=30,
)


@given(STATEMENTS, st.sampled_from(SourcesBy), st.sampled_from(Inputs), st.booleans())
def test_any_statements(
    statements: list[tuple[Node, Node, Node]],
    sources: SourcesBy,
    inputs: Inputs,
    sinks: bool,  # noqa: FBT001 - drawn
) -> None:
    """Whatever a file states in these vocabularies: each template is skipped, or makes a document without problems."""
    graph = Graph()
    for statement in statements:
        graph.add(statement)
    templates, findings = templates_in(Facts(graph), "drawn.ttl")
    for template in templates:
        document = encode(template, name="drawn", sources=sources, inputs=inputs, sinks=sinks)
        dataflow = canonicalise(
            json.dumps(document),
            dataflow="drawn",
            tenant="ann",
            catalogue=installed_catalogue(),
            sources=registered(sources_of(document)),
        )
        assert {task["id"] for task in document["tasks"]} == {*dataflow.places}
    skipped = [finding for finding in findings if finding.outcome is FindingOutcome.SKIPPED]
    assert bool(templates or skipped)


@given(st.binary(max_size=60), st.integers(min_value=0, max_value=3_000), st.sampled_from(["words.ttl", "model.owl"]))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, inserted: bytes, place: int, file: str) -> None:
    """No file whatever ends in a traceback: bytes that stand anywhere in a good one are reported at the worst."""
    path = tmp_path_factory.getbasetemp() / f"drawn-{file}"
    raw = (FILES / file).read_bytes()
    path.write_bytes(raw[:place] + inserted + raw[place:])
    templates, findings = read_templates(path)
    assert bool(templates or findings)
