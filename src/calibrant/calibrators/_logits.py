"""The logit that a curve over scores is fitted on."""

from __future__ import annotations

import numpy as np

from calibrant.numerics import SMALLEST_CLIP, clip_from_data, clip_open, logit
from calibrant.summary import Groups
from calibrant.validation import InputKind


def on_logits(groups: Groups, input: InputKind) -> tuple[Groups, float | None]:
    """Return groups of logits, and the clip that probabilities went through; other scores stay as they are."""
    if input != "probability":
        return groups, None
    clip = clip_from_data(groups.scores, float(groups.weight.sum()))
    return Groups(logit(clip_open(groups.scores, clip)), groups.weight, groups.positives), clip


def base_logit(groups: Groups) -> float:
    """Return the logit of the share of positives: all that can be fitted to constant scores."""
    positives = float(groups.positives.sum())
    return float(np.log(positives) - np.log(float(groups.weight.sum()) - positives))


def least_output(total_weight: float) -> float:
    """Return 1 / (n + 2), how close to 0 and 1 the rate of n rows is taken to lie, where it is no extreme itself."""
    return max(1.0 / (max(total_weight, 1.0) + 2.0), SMALLEST_CLIP)
