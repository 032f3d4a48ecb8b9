"""Class priors: rates of classes, their estimates where labels are missing, and the correction of probabilities."""

from calibrant.prior.black_box import BlackBoxEstimate, estimate_prior_bbse
from calibrant.prior.estimates import PriorEstimate
from calibrant.prior.likelihood import LikelihoodEstimate, estimate_prior
from calibrant.prior.rates import ClassRates, class_rates, class_rates_of_groups
from calibrant.prior.shift import PriorShift, prior_shift, undo_class_weight, undo_sampling

__all__ = [
    "BlackBoxEstimate",
    "ClassRates",
    "LikelihoodEstimate",
    "PriorEstimate",
    "PriorShift",
    "class_rates",
    "class_rates_of_groups",
    "estimate_prior",
    "estimate_prior_bbse",
    "prior_shift",
    "undo_class_weight",
    "undo_sampling",
]
