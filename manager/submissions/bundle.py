"""Bundles: several documents that are submitted together, all or none."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import msgspec

from dags import Problem
from dags.problems import pointer
from manager.problem import InvalidDataflow, InvalidRequest

MOST_DOCUMENTS = 100


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    documents: list[msgspec.Raw]


def documents_in(body: bytes) -> tuple[bytes, ...]:
    """The documents in the body of a request, each as it was sent.

    >>> documents_in(b'{"documents": [{"version": 1}, {"version":  2}]}')
    (b'{"version": 1}', b'{"version":  2}')
    """
    try:
        documents = msgspec.json.decode(body, type=_Body).documents
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(
            [_problem("", "not-a-bundle", f"the body is no bundle: {error}", 'send {"documents": [ ... ]}')]
        ) from None
    if not 1 <= len(documents) <= MOST_DOCUMENTS:
        message = f"a bundle has 1 to {MOST_DOCUMENTS} documents, and this one has {len(documents)}"
        raise InvalidRequest([_problem("/documents", "wrong-bundle", message, "send several bundles")])
    return tuple(bytes(each) for each in documents)


def problems_of_documents(problems: Mapping[int, Sequence[Problem]]) -> list[Problem]:
    """The problems of documents by their places, each with a pointer into the bundle."""
    return [
        replace(each, pointer=pointer("documents", at) + each.pointer)
        for at in sorted(problems)
        for each in problems[at]
    ]


@contextmanager
def of_document(at: int) -> Iterator[None]:
    """Have what refuses a document say which of a bundle it is."""
    try:
        yield
    except InvalidDataflow as refused:
        raise InvalidDataflow(problems_of_documents({at: refused.errors})) from refused


def _problem(at: str, code: str, message: str, remedy: str) -> Problem:
    return Problem(pointer=at, code=code, message=message, remedy=remedy)
