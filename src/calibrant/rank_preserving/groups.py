"""Margins of groups of rows: a problem for each group, and one matrix of all."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError, ConvergenceWarning, InvalidInputError, InvalidTypeError, ShapeError
from calibrant.rank_preserving.margins import margins_in_order
from calibrant.rank_preserving.problem import MarginKind
from calibrant.rank_preserving.result import RankPreservingResult
from calibrant.validation import ArrayLike, as_groups, as_probabilities, as_weight, check_same_length


def solve_groups(
    P: ArrayLike,
    margins: Any,
    groups: ArrayLike,
    *,
    sample_weight: ArrayLike | None,
    margin_kind: MarginKind,
    tol: float,
    solve_one: Callable[..., RankPreservingResult],
) -> RankPreservingResult:
    """Solve the problem of each group by `solve_one(P, margins, margin_kind=..., sample_weight=...)`.

    The order is kept among the rows of a group, for each of which the margins are met. Groups without a row of
    positive weight are left out, and their rows are NaN.
    """
    start = time.perf_counter()
    checked = as_probabilities(P, name="P")
    values, container = checked.values, checked.container
    if values.ndim == 1:
        raise ShapeError(f"P has shape {values.shape}. Pass one column per class, shape (n, K).")
    labels = as_groups(groups, name="groups")
    check_same_length(values.shape[0], labels.codes.size, "P", "groups")
    weight = as_weight(sample_weight, values.shape[0])
    found = labels.classes.tolist()
    targets = _targets(margins, found)
    q = np.full(values.shape, np.nan)
    results: dict[Any, RankPreservingResult] = {}
    for code, (group, target) in enumerate(zip(found, targets, strict=True)):
        rows = labels.codes == code
        own = None if weight is None else weight[rows]
        if own is not None and not own.any():
            continue
        try:
            of_group, is_rate = margins_in_order(target, container.columns, values.shape[1])
            kind = "rates" if is_rate else margin_kind
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                results[group] = solve_one(values[rows], of_group, sample_weight=own, margin_kind=kind)
        except CalibrantError as error:
            raise type(error)(f"group {group!r}: {error} (Rows are counted within the group.)") from None
        q[rows] = results[group].Q
    return _whole(container.wrap(q), results, values.shape, tol, time.perf_counter() - start)


def _targets(margins: Any, found: list[Any]) -> list[Any]:
    """Return the margins of each group."""
    if not isinstance(margins, Mapping):
        raise InvalidTypeError(
            f"margins is a {type(margins).__name__}, and there are groups. Pass a dict of the margins of each group."
        )
    given = {str(group): target for group, target in margins.items()}
    missing = [group for group in found if str(group) not in given]
    extra = [group for group in given if group not in set(map(str, found))]
    if missing or extra:
        what = f"has none for group {missing[0]!r}" if missing else f"names {extra[0]!r}, a group without rows"
        raise InvalidInputError(f"margins {what}. Name each group once: {found!r:.200}.")
    return [given[str(group)] for group in found]


def _whole(
    q: Any, results: dict[Any, RankPreservingResult], shape: tuple[int, ...], tol: float, time_s: float
) -> RankPreservingResult:
    parts = list(results.values())
    objective, bound = sum(part.objective for part in parts), sum(part.bound for part in parts)
    late = [group for group, part in results.items() if not part.converged]
    if late:
        warnings.warn(
            f"{len(late):,} of {len(results):,} groups did not converge, the first {late[0]!r} with a gap of "
            f"{results[late[0]].gap:.2e}. The answer is feasible; raise max_iter or gap_tol.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return RankPreservingResult(
        Q=q,
        converged=not late,
        n_iter=sum(part.n_iter for part in parts),
        objective=objective,
        bound=bound,
        gap=(objective - bound) / max(objective, shape[0] * shape[1] * tol**2),
        row_residual=max(part.row_residual for part in parts),
        margin_residual=max(part.margin_residual for part in parts),
        rank_residual=max(part.rank_residual for part in parts),
        history=(),
        method=parts[0].method,
        time_s=time_s,
        groups=results,
    )
