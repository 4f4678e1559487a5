"""Models that travel as events: plain JSON that holds numbers and names, and nothing that could be run.

A trainer writes one into a field of its event, and whoever classifies or predicts reads it there. What is read was
written by anybody, so that every model is checked to be whole before it is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Literal, TypeVar

import msgspec

_MOST = 4_000_000
"""The longest text of a model."""
_NODE = Annotated[int, msgspec.Meta(ge=-1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRegression:
    """What a field is, as a sum of others; made by `linear_regression_train`.

    >>> written(LinearRegression(fields=("a",), intercept=1.5, coefficients=(2.0,)))
    '{"kind":"linear_regression","fields":["a"],"intercept":1.5,"coefficients":[2.0]}'
    """

    kind: Literal["linear_regression"] = "linear_regression"
    fields: tuple[str, ...]
    intercept: float
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.coefficients) != len(self.fields):
            raise ValueError(f"it has {len(self.coefficients)} coefficients for {len(self.fields)} fields")
        _check_finite((self.intercept, *self.coefficients))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTree:
    """Questions that lead to a class; made by `decision_tree_train`. Nodes are numbered from the root, 0.

    A field is compared as a float of 32 bits, as it was when the tree was grown.
    """

    kind: Literal["decision_tree"] = "decision_tree"
    fields: tuple[str, ...]
    classes: tuple[str, ...]
    left: tuple[_NODE, ...]
    """For each node the one to go on with where the field is at most the threshold; -1 for a leaf."""
    right: tuple[_NODE, ...]
    """The one to go on with else."""
    field: tuple[int, ...]
    """Which of the fields is asked for; any at a leaf."""
    threshold: tuple[float, ...]
    leaf: tuple[int, ...]
    """Which of the classes it is, if no more is asked."""

    def __post_init__(self) -> None:
        nodes = len(self.left)
        if not nodes or {len(each) for each in (self.right, self.field, self.threshold, self.leaf)} != {nodes}:
            raise ValueError("its lists of nodes are empty, or not of one length")
        _check_finite(self.threshold)
        if not all(0 <= each < len(self.classes) for each in self.leaf):
            raise ValueError("a node's class is none of its classes")
        for node, (left, right, field) in enumerate(zip(self.left, self.right, self.field, strict=True)):
            if left == right == -1:
                continue
            # Always ahead, so that every walk comes to an end.
            if not (node < left < nodes and node < right < nodes):
                raise ValueError(f"node {node} leads to none that comes after it")
            if not 0 <= field < len(self.fields):
                raise ValueError(f"node {node} asks for none of its fields")


def _check_finite(numbers: Sequence[float]) -> None:
    if not all(map(isfinite, numbers)):
        raise ValueError("it has a number that is not finite")


M = TypeVar("M", LinearRegression, DecisionTree)


def written(model: LinearRegression | DecisionTree) -> str:
    """A model as text."""
    return msgspec.json.encode(model).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What every model says of itself."""

    kind: Literal["linear_regression", "decision_tree"]


_NAMES = {LinearRegression: "linear_regression", DecisionTree: "decision_tree"}


def read_model(text: str, kind: type[M], fields: Sequence[str]) -> M | None:
    """The model that a text holds; None where it is of another kind.

    Raises where it holds none at all, or one that needs other fields.
    """
    if len(text) > _MOST:
        raise ValueError(f"the model has {len(text):,} characters; it may have {_MOST:,}")
    try:
        if msgspec.json.decode(text, type=_Told).kind != _NAMES[kind]:
            return None
        model = msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"the text is no model: {error}") from None
    if strange := [field for field in model.fields if field not in fields]:
        raise ValueError(f"the model needs the field {strange[0]!r}, which this task does not read; add it to 'fields'")
    return model
