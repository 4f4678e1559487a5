"""What operators of the builder write into configs: expressions of the type `where`."""

from collections.abc import Iterator, Sequence


def quoted_field(name: str) -> str:
    """A field in an expression.

    >>> quoted_field("at noon")
    '"at noon"'
    """
    return '"{}"'.format(name.replace('"', '""'))


def quoted_text(text: str) -> str:
    """A text in an expression.

    >>> quoted_text("it's")
    "'it''s'"
    """
    return "'{}'".format(text.replace("'", "''"))


def routes(expressions: Sequence[str]) -> Iterator[str]:
    """Conditions of which exactly one is true: the first true expression, or the last for the rest.

    An expression that is null is not true.

    >>> list(routes(["t > 30"]))
    ['(t > 30)', '((t > 30) is null or not (t > 30))']
    """
    before: list[str] = []
    for each in expressions:
        yield " and ".join([*before, f"({each})"])
        before.append(f"(({each}) is null or not ({each}))")
    yield " and ".join(before)
