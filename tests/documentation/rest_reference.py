"""The page of REST, made from OpenAPI; `python -m tests.documentation.rest_reference` writes it."""

from collections.abc import Mapping
from typing import Any

from manager.rest.app import _routed
from manager.rest.openapi import resolved
from tests.documentation.pages import ROOT

PAGE = ROOT / "docs" / "rest.md"
_INTRODUCTION = """# REST

Every route of the service, made from its OpenAPI description by `make docs-rest`. A running service shows all of it,
with schemas and examples, at `/docs`, where it can be tried out, and as a file at `/openapi.json`. A caller sends its
API key as `Authorization: Bearer`. Rules for all answers are under [answers](service.md#answers); [the
service](service.md) says what the routes do.
"""


def made() -> str:
    """The whole page."""
    described = _routed().openapi()
    families: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            families.setdefault(_family(path), []).append(_section(f"{method.upper()} {path}", route, described))
    parts = [part for family, routes in sorted(families.items()) for part in (f"## {family}\n", *routes)]
    return "\n".join([_INTRODUCTION, *parts])


def _family(path: str) -> str:
    """The word that a path has after its version."""
    word = path.removeprefix("/v1/").strip("/").partition("/")[0] or "/"
    return word.replace("-", " ").capitalize() if path.startswith("/v1/") or word == "metrics" else "Without a key"


def _section(title: str, route: dict[str, Any], described: dict[str, Any]) -> str:
    lines = [f"### `{title}`\n"]
    description = " ".join(f"{route['summary']}. {route.get('description', '')}".split())
    lines.append(f"{description}\n")
    if parameters := [_parameter(resolved(described, each)) for each in route.get("parameters", [])]:
        lines += ["| parameter | in | |", "|---|---|---|", *parameters, ""]
    answers = {status: resolved(described, answer) for status, answer in route["responses"].items()}
    good = [status for status in answers if int(status) < 400]
    problems = [f"{status} {_title(answers[status])}" for status in sorted(answers) if status not in good]
    lines.append(f"Answers {' or '.join(good)}.")
    lines.append(f"Problems: {'; '.join(problems)}.\n" if problems else "")
    return "\n".join(lines)


def _parameter(parameter: Mapping[str, Any]) -> str:
    meaning = " ".join(str(parameter.get("description", "")).split()).replace("|", "\\|")
    needed = "" if not parameter.get("required") or parameter["in"] == "path" else " Required."
    return f"| `{parameter['name']}` | {parameter['in']} | {meaning}{needed} |"


def _title(response: Mapping[str, Any]) -> str:
    return str(response["description"])


if __name__ == "__main__":
    PAGE.write_text(made(), encoding="utf-8")
