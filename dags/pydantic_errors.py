"""Problems from pydantic's errors, in the terms of JSON, for documents and configs alike."""

from collections.abc import Sequence

from pydantic_core import ErrorDetails

from dags.problems import listed, quoted, suggestion

# The JSON type that was expected, by pydantic's name of the error.
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

# Code, message and remedy of the errors that need nothing but their context.
_LIMITS = {
    "string_pattern_mismatch": (
        "wrong-value",
        "the text contains characters that are not allowed here",
        "use a text that matches {pattern}",
    ),
    "string_too_long": ("too-long", "the text is longer than {max_length} characters", "shorten it"),
    "string_too_short": ("too-short", "the text must have a length of at least {min_length}", "make it longer"),
    "too_short": ("too-short", "the array must have a length of at least {min_length}", "add entries"),
}


def describe_error(found: ErrorDetails, known_fields: Sequence[str]) -> tuple[str, str, str]:
    """The code, message and remedy for an error in an object that may have the known fields."""
    kind = found["type"]
    place = str(found["loc"][-1]) if found["loc"] else ""
    if kind == "missing":
        return "missing-field", f"the field {quoted(place)} is missing", "add it"
    if kind == "extra_forbidden":
        otherwise = f"remove it; the known fields are {listed(known_fields)}" if known_fields else "remove it"
        return "unknown-field", f"unknown field {quoted(place)}", suggestion(place, known_fields, otherwise)
    if kind in _TYPES:
        return "wrong-type", f"the value should be {_TYPES[kind]}", f"give {_TYPES[kind]}"
    if kind in _LIMITS:
        code, message, remedy = _LIMITS[kind]
        return code, message.format(**found["ctx"]), remedy.format(**found["ctx"])
    reason = found["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ").removeprefix("Input ")
    prefix = "is not valid: " if kind in {"value_error", "assertion_error"} else ""
    message = f"the value {prefix}{reason[0].lower()}{reason[1:]}" if reason else "the value is not allowed here"
    return "wrong-value", message, "change it to follow this rule"
