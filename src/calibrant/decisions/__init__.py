"""Decisions on probabilities of classes and forecasts of numbers: promised before, and checked after.

A `Problem` says what each action loses with each class, or with each range of a number, or by any function of it; a
`Policy` takes the action of least expected loss. `expected_loss` promises what that costs without outcomes, `evaluate`
checks it with them. Net benefit, decision curves, cost curves and curves of risk against coverage say over all costs at
once what probabilities are good for.

All functions raise a CalibrantError where an argument can't be used, which says where and why.
"""

from calibrant.decisions.benefit import (
    DecisionCurve as DecisionCurve,
    decision_curve as decision_curve,
    net_benefit as net_benefit,
)
from calibrant.decisions.correction import CalibrationRows as CalibrationRows
from calibrant.decisions.cost_curves import CostCurve as CostCurve, cost_curve as cost_curve
from calibrant.decisions.evaluation import DecisionScores as DecisionScores, evaluate as evaluate
from calibrant.decisions.policy import Policy as Policy
from calibrant.decisions.problem import Problem as Problem
from calibrant.decisions.promise import expected_loss as expected_loss
from calibrant.decisions.selective import (
    RiskCoverageCurve as RiskCoverageCurve,
    risk_coverage_curve as risk_coverage_curve,
)
from calibrant.decisions.thresholds import TunedThreshold as TunedThreshold, tune_threshold as tune_threshold

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.decisions.benefit import (
    decision_curve_of_rows as decision_curve_of_rows,
    net_benefit_of_rows as net_benefit_of_rows,
)
from calibrant.decisions.cost_curves import cost_curve_of_rows as cost_curve_of_rows
from calibrant.decisions.evaluation import evaluate_decided as evaluate_decided
from calibrant.decisions.outcomes import Decided as Decided, decide_rows as decide_rows, read_decided as read_decided
from calibrant.decisions.policy import as_policy as as_policy
from calibrant.decisions.selective import risk_coverage_of_rows as risk_coverage_of_rows
