"""Predictive tasks: they train models on events, and apply them to others.

`trainers` make models, and the classes to learn from. `predictors` apply models, and estimate their errors. The entry
points name the behaviours here.
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
