"""Problems: their order, their wording, and their suggestions."""

import pytest

from dags import InvalidDocument, Problem
from dags.problems import listed, nearest, pointer, quoted, suggestion


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
