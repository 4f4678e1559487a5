"""The text of documents, and the problems that are found: their order, wording and suggestions."""

import json
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Discriminator, Tag

from dags import InvalidDocument, Problem
from dags.document import read
from dags.json_text import MOST_DOCUMENT_BYTES, MOST_NESTING, MOST_UNFIT, read_form
from dags.problems import listed, nearest, pointer, quoted, suggestion
from tests.dags.refusal import canonicalise, codes, kept, problem, problems, value_problems
from tests.notation import document

VALUE = "/tasks/1/config/value"
TWO = "s:source > k:sink"
NOT_FINITE = problem(VALUE, "not-finite", "the number is NaN, infinite or too large", "give a finite number")
TOO_LARGE = problem(
    VALUE,
    "integer-too-large",
    "the integer is beyond ±2^53, where JSON numbers lose digits",
    "use a smaller one for an integer field, one with an exponent and no more digits than a float keeps for a float "
    "field, and a string for a text field",
)
TOO_SMALL = problem(
    VALUE,
    "number-too-small",
    "the number is too close to 0: as a float it would be 0",
    "write 0, or a number that a float can hold",
)
TOO_DEEP = problem(
    "",
    "nested-too-deeply",
    "the document nests objects and arrays too deeply",
    "nest at most 16 levels in a config",
)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "line 1, column 1: Expecting value"),
        ("{", "line 1, column 2: Expecting property name enclosed in double quotes"),
        ('{"version": 1,\n "name" "n"}', "line 2, column 9: Expecting ':' delimiter"),
        ("{} {}", "line 1, column 4: Extra data"),
        ("\ufeff{}", "line 1, column 1: Unexpected UTF-8 BOM (decode using utf-8-sig)"),
        ('{"version": 01}', "line 1, column 14: Expecting ',' delimiter"),
        ('"a', "line 1, column 1: Unterminated string starting at"),
        ('{"a": +1}', "line 1, column 7: Expecting value"),
    ],
)
def test_malformed_json_is_refused_with_its_place(text: str, where: str) -> None:
    """With line and column, as text and as bytes."""
    expected = [problem("", "malformed-json", f"the document is not JSON: {where}", "correct the text there")]
    assert expected == problems(text)
    assert expected == problems(text.encode())


@pytest.mark.parametrize("text", ["[]", "1", '"text"', "null", "true", "NaN", "9" * 5_000])
def test_json_that_is_not_an_object_is_refused(text: str) -> None:
    """A document is an object."""
    expected = problem("", "not-an-object", "the document is not a JSON object", "put its fields in { … }")
    assert [expected] == problems(text)


@pytest.mark.parametrize(
    ("raw", "byte"), [(b"\xff{}", 0), (b'{"name": "\xc3\x28"}', 10), ("{}".encode("utf-16"), 0), (b'"\xed\xa0\x80"', 1)]
)
def test_bytes_that_are_not_utf_8_are_refused(raw: bytes, byte: int) -> None:
    """The problem names the first byte that is not UTF-8."""
    expected = problem("", "not-utf-8", f"byte {byte} of the document is not UTF-8", "send the document as UTF-8")
    assert [expected] == problems(raw)


@pytest.mark.parametrize(
    "text",
    [" " * (MOST_DOCUMENT_BYTES + 1), "é" * (MOST_DOCUMENT_BYTES // 2 + 1), "\ud800" * (MOST_DOCUMENT_BYTES // 3 + 1)],
)
def test_a_document_of_too_many_bytes_is_refused(text: str) -> None:
    """Bytes count, of which a character may have several."""
    expected = problem(
        "",
        "document-too-large",
        "the document is larger than 4,194,304 bytes",
        "split it into several dataflows; they share what they have in common",
    )
    assert [expected] == problems(text)
    assert [expected] == problems(text.encode("utf-8", "surrogatepass"))


def test_a_document_of_just_as_many_bytes_as_allowed_is_read() -> None:
    """The limit itself is allowed, for text and bytes."""
    text = json.dumps(document(TWO))
    padded = text + " " * (MOST_DOCUMENT_BYTES - len(text))
    assert read(text) == read(padded) == read(padded.encode())


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"tasks": ' + "[" * 100_000 + "]" * 100_000 + "}"])
def test_text_that_nests_too_deeply_to_be_parsed_is_refused(text: str) -> None:
    """Brackets within brackets do not exhaust the parser."""
    assert [TOO_DEEP] == problems(text)


def test_a_config_may_nest_up_to_a_limit() -> None:
    """The config itself is the first level. One level beyond the limit is a problem at its place."""
    levels = MOST_NESTING - 1
    assert json.loads("[" * levels + "]" * levels) == kept("[" * levels + "]" * levels)
    place = VALUE + "/0" * levels
    expected = problem(place, "nested-too-deeply", "the config is nested deeper than 16 levels", "flatten the config")
    assert [expected] == value_problems("[" * (levels + 1) + "]" * (levels + 1))
    expected = problem(
        VALUE + "/a" * levels, "nested-too-deeply", "the config is nested deeper than 16 levels", "flatten the config"
    )
    assert [expected] == value_problems('{"a":' * (levels + 1) + "0" + "}" * (levels + 1))


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e" + "9" * 5_000, "9" * 400 + ".5"]
)
def test_numbers_that_are_not_finite_are_refused(value: str) -> None:
    """NaN, infinities, and numbers beyond the largest float."""
    assert [NOT_FINITE] == value_problems(value)


@pytest.mark.parametrize(
    "value",
    [
        *(
            str(2**53 + 1),
            str(-(2**53) - 1),
            str(10**19),
            str(10**20),
            "-" + "9" * 20,
            "9" * 5_000,
            "-" + "9" * 100_000,
        ),
        *("9007199254740993.0", "-9007199254740993.0", "9007199254740993e0", "9.007199254740993E15"),
        *("9007199254740992.5", "100000000000000000000000001.0", "1.0000000000000000000001e300"),
    ],
)
def test_integers_beyond_2_to_the_53_are_refused(value: str) -> None:
    """With any number of digits, and as a float if it would lose digits."""
    assert [TOO_LARGE] == value_problems(value)


@pytest.mark.parametrize("value", ["1e-400", "-1e-400", "0.01e-323", "0." + "0" * 5_000 + "1", "1E-" + "9" * 5_000])
def test_numbers_that_would_become_0_are_refused(value: str) -> None:
    """Like those that would become infinite."""
    assert [TOO_SMALL] == value_problems(value)


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**53 - 1, 1 - 2**53, 0])
def test_integers_up_to_2_to_the_53_are_kept(value: int) -> None:
    """2^53 itself, which every JSON parser reads exactly, is allowed anywhere in a config."""
    assert [value, {"a": value}] == kept(f'[{value}, {{"a": {value}}}]')


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("5.0", 5),
        ("5e0", 5),
        ("50e-1", 5),
        ("-0.0", 0),
        ("-0", 0),
        ("0e99", 0),
        ("0.0e-999", 0),
        ("9007199254740992.0", 2**53),
        ("-90071992547409920e-1", -(2**53)),
    ],
)
def test_numbers_that_are_equal_are_one(written: str, meant: int) -> None:
    """A whole number is kept as an integer, in every form."""
    value = kept(written)
    assert meant == value
    assert type(value) is int


@pytest.mark.parametrize(
    "written", ["0.1", "-2.5e-7", "1e300", "1e22", "1.7976931348623157e308", "9007199254740994.0", "5e-324", "1e-310"]
)
def test_other_numbers_are_kept_as_they_are(written: str) -> None:
    """Fractions, and floats beyond 2^53 with an exponent or a fraction."""
    assert float(written) == kept(written)


def test_a_lone_surrogate_is_a_problem_at_its_place() -> None:
    """In a value, key, name or id. Whole pairs are allowed."""
    text = problem(
        VALUE, "lone-surrogate", "the text contains half a character", "write both halves of each surrogate pair"
    )
    key = problem("", "lone-surrogate", "the key contains half a character", "write both halves of each surrogate pair")
    assert [text] == value_problems('"\\ud800"') == value_problems('"a\\udfffb"') == value_problems('"\\udc00\\ud800"')
    assert "\U00010000" == kept('"\\ud800\\udc00"')
    assert [_at(text, VALUE + "/0/é/1")] == value_problems('[{"é": [0, "\\ud800"]}]')
    assert [_at(key, VALUE + "/\\ud800")] == value_problems('{"\\ud800": 1}')
    assert [_at(key, VALUE + "/\\ud800"), _at(text, VALUE + "/\\ud800")] == value_problems('{"\\ud800": "\\udbff"}')
    assert [_at(text, "/name")] == problems(document(TWO, name="\ud800"))
    surrogate_id = document(TWO)
    surrogate_id["tasks"][0]["id"] = surrogate_id["streams"][0]["from"] = "\ud800"
    assert [_at(text, "/tasks/0/id"), _at(text, "/streams/0/from")] == problems(surrogate_id)


@pytest.mark.parametrize("encoded", [False, True])
def test_a_lone_surrogate_is_found_whether_escaped_or_not(*, encoded: bool) -> None:
    """A text may contain one directly, while bytes must escape it."""
    assert [("/name", "lone-surrogate")] == codes(json.dumps(document(TWO, name="\udead"), ensure_ascii=encoded))


def test_a_key_with_half_a_character_hides_no_other_problem() -> None:
    """Next to such a key, at the top or in a task, all other problems are still found."""
    written = document("s:source > a:mapp > k:sink") | {"\ud800": 1, "extra": 2}
    del written["name"]
    written["tasks"][2]["\udfff"] = 1
    written["tasks"].append(5)
    assert [
        ("/name", "missing-field"),
        ("/tasks/1/type", "unknown-type"),
        ("/tasks/2/\\udfff", "lone-surrogate"),
        ("/tasks/3", "wrong-type"),
        ("/\\ud800", "lone-surrogate"),
        ("/extra", "unknown-field"),
    ] == codes(written)


def test_every_repeated_key_is_a_problem_of_its_object() -> None:
    """At any depth, because readers differ in which value counts."""

    def twice(pointer: str, key: str) -> Any:
        return problem(pointer, "repeated-key", f"the key '{key}' appears twice in one object", "keep one of the two")

    assert [twice(VALUE, "a"), twice(VALUE, "c")] == value_problems('{"a": 1, "b": 2, "a": 1, "c": 1, "c": 2, "a": 3}')
    assert [twice(VALUE + "/0", "é")] == value_problems('[{"é": 1, "\\u00e9": 1}]')
    text = json.dumps(document(TWO))
    assert [twice("", "name")] == problems(text[:-1] + ', "name": "again"}')
    assert [twice("/tasks/0", "id")] == problems(text.replace('"id": "s"', '"id": "s", "id": "s"'))
    assert [twice("/streams/0", "to")] == problems(text.replace('"to": "k"', '"to": "k", "to": "k"'))


def test_keys_that_only_look_alike_are_not_repeated() -> None:
    """Keys are not normalised: composed and decomposed letters differ."""
    assert {"\u00e9": 1, "e\u0301": 2} == kept('{"\\u00e9": 1, "e\\u0301": 2}')


@pytest.mark.parametrize(
    ("count", "reported"), [(MOST_UNFIT - 1, MOST_UNFIT - 1), (MOST_UNFIT, MOST_UNFIT), (5_000, MOST_UNFIT)]
)
def test_reading_stops_after_many_unfit_values(count: int, reported: int) -> None:
    """The first ones are reported, in order."""
    values = ",".join(["NaN"] * count)
    assert [f"{VALUE}/{i}" for i in range(reported)] == [problem.pointer for problem in value_problems(f"[{values}]")]


def test_keys_have_a_maximum_length() -> None:
    """Each problem below a key repeats it, so nothing below a key that is too long is checked."""
    fine, long = "é" * 1_000, "é" * 1_001
    too_long = problem("", "too-long", "the key is longer than 1,000 characters", "shorten it")
    assert {fine: {fine: 1}} == kept(json.dumps({fine: {fine: 1}}))
    assert [_at(TOO_LARGE, f"{VALUE}/{fine}/0")] == value_problems(json.dumps({fine: [2**60]}))
    assert [_at(too_long, f"{VALUE}/{long}")] == value_problems(json.dumps({long: [2**60], "b": 1}))
    assert [_at(too_long, f"{VALUE}/{long}")] == value_problems(json.dumps({long: 1}))
    assert [_at(too_long, f"{VALUE}/{long}"), _at(TOO_LARGE, f"{VALUE}/{long}")] == value_problems(
        json.dumps({long: 2**60})
    )
    assert [_at(too_long, f"/{long}")] == problems(document(TWO) | {long: {"a": 2**60}})


def test_unfit_values_are_reported_with_all_other_problems() -> None:
    """An unfit task does not hide the problems of other tasks."""
    written = document("s:source > a:mapp > b:map > k:sink")
    written["tasks"][2]["config"] = {"add": float("nan"), "ad": 1}
    assert [
        problem("/tasks/1/type", "unknown-type", "unknown task type 'mapp'", "did you mean 'map'?"),
        _at(NOT_FINITE, "/tasks/2/config/add"),
    ] == problems(written)


def test_broken_entries_keep_their_places() -> None:
    """They are None, the others are as written, and the ids of broken entries are known."""
    written = document("s:source > a:map > k:sink")
    written["tasks"][1]["fresh"] = "yes"
    written["tasks"].append({"type": "map"})
    written["streams"][0] = "s > a"
    reading = read(json.dumps(written))
    assert ["s", None, "k", None] == [task and task.id for task in reading.tasks]
    assert [None, "a"] == [stream and stream.origin for stream in reading.streams]
    assert frozenset({"a"}) == reading.unreadable_ids
    assert "flow" == reading.name


def test_a_document_without_problems_is_read_as_written() -> None:
    """Nothing is removed or added."""
    reading = read(json.dumps(document("s:source > a:map{'add': 1} > k:sink")))
    assert "flow" == reading.name
    assert [("s", "source"), ("a", "map"), ("k", "sink")] == [(t.id, t.type) for t in reading.tasks if t is not None]
    assert [{"source": "weather"}, {"add": 1}, {}] == [task.config for task in reading.tasks if task is not None]
    assert [("s", "a"), ("a", "k")] == [(s.origin, s.to) for s in reading.streams if s is not None]
    assert frozenset() == reading.unreadable_ids
    assert () == reading.problems


def test_text_and_bytes_are_read_alike() -> None:
    """A document is the same as text and as UTF-8, with or without escapes."""
    written = document(TWO, name="Zähler 😀")
    plain, escaped = json.dumps(written, ensure_ascii=False), json.dumps(written)
    assert (
        canonicalise(plain) == canonicalise(plain.encode()) == canonicalise(escaped) == canonicalise(escaped.encode())
    )


def _at(found: Any, pointer: str) -> Any:
    return problem(pointer, found.code, found.message, found.remedy)


def at(pointer: str, message: str = "m") -> Problem:
    return Problem(pointer=pointer, code="c", message=message, remedy="r")


def test_a_problem_reads_as_place_fault_and_remedy() -> None:
    """The place of the whole document has a name."""
    assert "/tasks/0: m; r" == str(at("/tasks/0"))
    assert "(document): m; r" == str(at(""))


def test_problems_stand_in_the_order_of_the_document() -> None:
    """By part, then number, then name. Problems outside the parts come last."""
    ordered = [
        "",
        "/version",
        "/name",
        "/name/0",
        "/tasks",
        "/tasks/2",
        "/tasks/2/2",
        "/tasks/2/config",
        "/tasks/2/config/3",
        "/tasks/2/config/10",
        "/tasks/2/config/x",
        "/tasks/2/id",
        "/tasks/10",
        "/tasks/x",
        "/streams",
        "/streams/0/from",
        "/streams/0/to",
        "/",
        "/10",
        "/9",
        "/other",
        "/other/tasks",
    ]
    assert ordered == [problem.pointer for problem in InvalidDocument(at(place) for place in ordered[::-1]).problems]


def test_keys_of_digits_have_a_place_however_long() -> None:
    """After the numbers of entries."""
    long, longer = "1" * 10, "1" * 5_000
    ordered = ["/tasks/0/999999999", "/tasks/0/" + long, "/tasks/0/" + longer, "/tasks/0/a"]
    assert ordered == [problem.pointer for problem in InvalidDocument(at(place) for place in ordered[::-1]).problems]


def test_problems_of_one_place_stay_in_the_order_they_were_found() -> None:
    """The problem of the first check comes first."""
    found = [at("/tasks/0", message) for message in "cab"]
    assert tuple(found) == InvalidDocument(found).problems


def test_a_refusal_reads_as_its_problems() -> None:
    """One line each."""
    assert "(document): m; r\n/name: m; r" == str(InvalidDocument([at("/name"), at("")]))
    assert isinstance(InvalidDocument([]), ValueError)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ((), ""),
        (("",), "/"),
        (("a", 0, "b"), "/a/0/b"),
        (("~", "/", "~1", "a/b~c"), "/~0/~1/~01/a~1b~0c"),
        (("é", "😀"), "/é/😀"),
        (("\ud800x",), "/\\ud800x"),
    ],
)
def test_a_pointer_is_a_json_pointer_that_can_be_written(tokens: tuple[str | int, ...], expected: str) -> None:
    """By RFC 6901. Lone surrogates are escaped."""
    assert expected == pointer(*tokens)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "''"),
        ("it's", '"it\'s"'),
        ("a\nb\x00", r"'a\nb\x00'"),
        ("\ud800", r"'\ud800'"),
        ("é", "'é'"),
        ("x" * 60, f"'{'x' * 60}'"),
        ("x" * 61, f"'{'x' * 59}…'"),
    ],
)
def test_texts_of_tenants_are_quoted_short_and_printable(text: str, expected: str) -> None:
    """Up to sixty characters."""
    assert expected == quoted(text)


def test_lists_show_their_beginning() -> None:
    """And their length, if not all entries are shown."""
    assert "none" == listed([])
    assert "'b', 'a'" == listed(iter("ba"))
    assert ", ".join(f"'{i}'" for i in range(10)) == listed(str(i) for i in range(10))
    assert ", ".join(f"'{i}'" for i in range(10)) + ", … (11 in all)" == listed(str(i) for i in range(11))
    assert "'a', 'b', … (3 in all)" == listed("abc", most=2)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("abcde", "abcde"),
        ("abxde", "abcde"),
        ("acdeb", "abcde"),
        ("zzz", None),
        ("", None),
        ("fghij", None),
        ("fghi", None),
        ("ABCDE", None),
    ],
)
def test_the_nearest_name_is_the_most_alike_if_any_is(word: str, expected: str | None) -> None:
    """The order of letters counts, and capitals are other letters."""
    assert expected == nearest(word, ["xyz", "abcde", "abcxx"])


def test_the_nearest_has_to_be_alike_in_three_of_five_letters() -> None:
    """Sixty per cent over both words."""
    assert "abcde" == nearest("abcxy", ["abcde"])
    assert nearest("abxyz", ["abcde"]) is None


def test_a_name_within_another_is_not_near() -> None:
    """The whole name counts."""
    assert nearest("map", ["a map of the whole world"]) is None


def test_of_many_names_none_is_suggested() -> None:
    """With more than two hundred names, or a very long word, the search would cost too much."""
    names = [f"name{i}" for i in range(200)]
    assert "name7" == nearest("nam7", names)
    assert nearest("nam7", [*names, "one more"]) is None
    long = "x" * 200
    assert long == nearest(long, [long])
    assert nearest(long + "x", [long]) is None


def test_names_are_not_compared_when_there_are_many() -> None:
    """They are only counted."""
    compared: list[str] = []

    class Name(str):
        __slots__ = ()

        def __len__(self) -> int:
            compared.append(self)
            return super().__len__()

    assert nearest("name", [Name(f"name{i}") for i in range(10_000)]) is None
    assert [] == compared


def test_a_suggestion_falls_back_on_other_advice() -> None:
    """If no name is similar."""
    assert "did you mean 'map'?" == suggestion("mapp", ["map"], "remove it")
    assert "remove it" == suggestion("zzz", ["map"], "remove it")


class Circle(BaseModel):
    model_config = ConfigDict(extra="forbid")
    radius: int


class Square(BaseModel):
    model_config = ConfigDict(extra="forbid")
    side: int


class Drawing(BaseModel):
    model_config = ConfigDict(extra="forbid")
    shapes: list[
        Annotated[
            Annotated[Circle, Tag("(circle)")] | Annotated[Square, Tag("(square)")],
            Discriminator(lambda shape: "(circle)" if "radius" in shape else "(square)"),
        ]
    ]


@pytest.mark.parametrize(
    ("shape", "field", "remedy"),
    [
        ({"radius": 1, "sidee": 2}, "sidee", "remove it; the known fields are 'radius'"),
        ({"side": 1, "sidee": 2}, "sidee", "did you mean 'side'?"),
        ({"side": 1, "radios": 2}, "radios", "remove it; the known fields are 'side'"),
    ],
)
def test_of_several_forms_the_fields_of_one_are_known(shape: dict[str, int], field: str, remedy: str) -> None:
    """That of the tag which an entry has; the path is that of the document."""
    with pytest.raises(InvalidDocument) as refused:
        read_form(json.dumps({"shapes": [{"side": 1}, shape]}), Drawing)
    expected = problem(f"/shapes/1/{field}", "unknown-field", f"unknown field '{field}'", remedy)
    assert (expected,) == refused.value.problems
