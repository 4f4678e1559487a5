"""Models that travel as events: plain JSON with numbers and names, and no code.

A trainer writes a model into a field of its event, where a predictor reads it. Any tenant may have written it, so every
model is checked before it is used.
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
    """A field as a weighted sum of others; made by `linear_regression_train`.

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
    """Comparisons that lead to a class; made by `decision_tree_train`. Nodes are numbered from the root, 0.

    A field is compared as a float of 32 bits, as in the training.
    """

    kind: Literal["decision_tree"] = "decision_tree"
    fields: tuple[str, ...]
    classes: tuple[str, ...]
    left: tuple[_NODE, ...]
    """The next node of each node if the field is at most the threshold; -1 for a leaf."""
    right: tuple[_NODE, ...]
    """The next node otherwise."""
    field: tuple[int, ...]
    """The index of the field to compare; any at a leaf."""
    threshold: tuple[float, ...]
    leaf: tuple[int, ...]
    """The index of the class, for a leaf."""

    def __post_init__(self) -> None:
        nodes = len(self.left)
        if not nodes or {len(each) for each in (self.right, self.field, self.threshold, self.leaf)} != {nodes}:
            raise ValueError("its lists of nodes are empty or differ in length")
        _check_finite(self.threshold)
        if not all(0 <= each < len(self.classes) for each in self.leaf):
            raise ValueError("the class of a node does not exist")
        for node, (left, right, field) in enumerate(zip(self.left, self.right, self.field, strict=True)):
            if left == right == -1:
                continue
            # Always forward, so that every walk ends.
            if not (node < left < nodes and node < right < nodes):
                raise ValueError(f"node {node} does not lead to a later node")
            if not 0 <= field < len(self.fields):
                raise ValueError(f"the field of node {node} does not exist")


def _check_finite(numbers: Sequence[float]) -> None:
    if not all(map(isfinite, numbers)):
        raise ValueError("it contains a number that is not finite")


M = TypeVar("M", LinearRegression, DecisionTree)


def written(model: LinearRegression | DecisionTree) -> str:
    """The text of a model."""
    return msgspec.json.encode(model).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The common part of all models."""

    kind: Literal["linear_regression", "decision_tree"]


_NAMES = {LinearRegression: "linear_regression", DecisionTree: "decision_tree"}


def read_model(text: str, kind: type[M], fields: Sequence[str]) -> M | None:
    """Read a model from its text; None if it is of another kind.

    Raises ValueError if the text is not a model, or the model needs other fields.
    """
    if len(text) > _MOST:
        raise ValueError(f"the model has {len(text):,} characters; the most allowed are {_MOST:,}")
    try:
        if msgspec.json.decode(text, type=_Head).kind != _NAMES[kind]:
            return None
        model = msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"the text is not a model: {error}") from None
    if missing := [field for field in model.fields if field not in fields]:
        raise ValueError(f"the model needs the field {missing[0]!r}, which this task does not read; add it to 'fields'")
    return model
