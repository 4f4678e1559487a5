"""Pydantic's findings in the words of JSON, for documents and configs alike."""

from collections.abc import Sequence

from pydantic_core import ErrorDetails

from dags.problems import listed, quoted, suggestion

# What a value of the wrong JSON type should have been, by pydantic's name for the finding.
_TYPES = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "float_type": "a number",
    "int_type": "an integer",
    "list_type": "an array",
    "model_type": "an object",
    "string_type": "a string",
    "tuple_type": "an array",
}


# Findings whose words need nothing but their context: code, message, remedy.
_LIMITS = {
    "string_pattern_mismatch": (
        "wrong-value",
        "the text holds characters that are not allowed here",
        "let it match {pattern}",
    ),
    "string_too_long": ("too-long", "the text is longer than {max_length} characters", "shorten it"),
    "string_too_short": ("too-short", "the text needs a length of at least {min_length}", "lengthen it"),
    "too_short": ("too-short", "the array needs at least {min_length} entries", "add what is missing"),
}


def describe_error(found: ErrorDetails, known_fields: Sequence[str]) -> tuple[str, str, str]:
    """The code, message and remedy of a finding in an object that may have the known fields."""
    kind = found["type"]
    place = str(found["loc"][-1]) if found["loc"] else ""
    if kind == "missing":
        return "missing-field", f"the field {quoted(place)} is missing", "add it"
    if kind == "extra_forbidden":
        otherwise = f"remove it; known are {listed(known_fields)}" if known_fields else "remove it"
        return "unknown-field", f"unknown field {quoted(place)}", suggestion(place, known_fields, otherwise)
    if kind in _TYPES:
        return "wrong-type", f"the value should be {_TYPES[kind]}", f"give {_TYPES[kind]}"
    if kind in _LIMITS:
        code, message, remedy = _LIMITS[kind]
        return code, message.format(**found["ctx"]), remedy.format(**found["ctx"])
    words = found["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ").removeprefix("Input ")
    words = words or "is not allowed here"
    return "wrong-value", f"the value {words[0].lower()}{words[1:]}", "give one that does not break this rule"
