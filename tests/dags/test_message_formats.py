"""The formats of messages as forms have them: short ones, full ones, and those that are refused."""

import json
import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from dags.message_formats import JSON, CsvMessages, JsonMessages, MessageFormat, TextMessages, is_json

FORMAT: TypeAdapter[MessageFormat] = TypeAdapter(MessageFormat)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("json", JSON),
        ("csv", CsvMessages()),
        ("text", TextMessages()),
        ({"kind": "text", "field": "t"}, TextMessages(field="t")),
        ({"kind": "csv", "columns": ["a", "b"], "separator": ";"}, CsvMessages(columns=("a", "b"), separator=";")),
        (JSON, JSON),
    ],
)
def test_a_kind_alone_is_a_format(given: Any, expected: MessageFormat) -> None:
    """It is short for the format without settings; lists become tuples, in JSON however strictly it is read."""
    assert expected == FORMAT.validate_python(given)
    written = FORMAT.dump_json(given) if given is JSON else json.dumps(given)
    assert expected == FORMAT.validate_json(written, strict=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"separator": "'", "quote": "'"}, 'separator and quote are both "\'"; choose another for one of them'),
        ({"columns": ["a", "b", "a"]}, "two columns have the same name; rename one of them"),
        ({"columns": "ab"}, "Input should be a valid tuple"),
    ],
)
def test_no_csv(given: dict[str, Any], message: str) -> None:
    """Values could not be told apart."""
    with pytest.raises(ValidationError, match=re.escape(message)):
        CsvMessages.model_validate(given)


def test_sources_that_name_no_format_have_json() -> None:
    """Any other format is not it."""
    assert [True, True, False] == [is_json(form) for form in (JSON, JsonMessages(), CsvMessages())]
