"""Class priors: rates of classes, their estimates where labels are missing, and the correction of probabilities.

All functions raise a CalibrantError where an argument can't be used, which says where and why. Rates, shares and
columns of probabilities that have names go by these.
"""

from calibrant.prior.black_box import BlackBoxEstimate as BlackBoxEstimate, estimate_prior_bbse as estimate_prior_bbse
from calibrant.prior.likelihood import LikelihoodEstimate as LikelihoodEstimate, estimate_prior as estimate_prior
from calibrant.prior.rates import (
    ClassRates as ClassRates,
    Shares as Shares,
    class_rates as class_rates,
    class_rates_of_groups as class_rates_of_groups,
)
from calibrant.prior.shift import (
    PriorEstimate as PriorEstimate,
    PriorShift as PriorShift,
    prior_shift as prior_shift,
    undo_class_weight as undo_class_weight,
    undo_sampling as undo_sampling,
)
