"""Predictive tasks: learning models from events, and using them on others.

`learning` makes models, and the classes to learn from; `applying` uses models, and tells how wrong they are. What is
named here is what the entry points name.
"""

from engine.implementations.predictive.predictors import (
    decision_tree_classify,
    error_estimate,
    linear_regression_predict,
)
from engine.implementations.predictive.trainers import annotate_class, decision_tree_train, linear_regression_train

__all__ = [
    "annotate_class",
    "decision_tree_classify",
    "decision_tree_train",
    "error_estimate",
    "linear_regression_predict",
    "linear_regression_train",
]
