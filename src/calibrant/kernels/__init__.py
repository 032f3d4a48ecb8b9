"""The project's compiled loops. Importing this folder imports no compiler; the first use of a loop does."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.kernels.all_pairs import falls_of_all_pairs, rise_at_a_price_of_all_pairs
    from calibrant.kernels.binning import rows_in_bins, sum_bins, sum_cells
    from calibrant.kernels.columns import (
        average_blocks,
        block_shares,
        join_lanes,
        measure_columns,
        pool_columns,
        pool_shifted,
        split_steps,
        step_lane,
    )
    from calibrant.kernels.curves import count_cells, scores_in_cells, sum_between
    from calibrant.kernels.fold import (
        count_in_cells,
        find_ranges,
        flag_vertices,
        fold_groups,
        fold_rows,
        merge_cells,
        merge_runs,
        split_ranges,
    )
    from calibrant.kernels.level_maps import choose_maps, index_knots, push_levels, push_lines, push_slopes
    from calibrant.kernels.lookup import interpolate, take_step
    from calibrant.kernels.mimic import fill_bins, merge_bins
    from calibrant.kernels.near_isotonic import follow_near_isotonic
    from calibrant.kernels.nearly import rise_at_a_price
    from calibrant.kernels.pav import pool_keys, pool_weighted
    from calibrant.kernels.piecewise import (
        count_samples,
        evaluate_pieces,
        invert_pieces,
        pick_samples,
        score_pieces,
        score_samples,
        slope_of_pieces,
    )
    from calibrant.kernels.refit import count_hits, refit_drawn_labels
    from calibrant.kernels.slack import rise_with_slack
    from calibrant.kernels.softmax import multiply_rows
    from calibrant.kernels.sorting import (
        count_distinct,
        mend_order,
        pack_signed,
        radix_sort,
        run_lengths,
        weighted_runs,
    )
    from calibrant.kernels.spline import fit_rising_curve
    from calibrant.kernels.threshold_grid import bound_splits, measure_splits
    from calibrant.kernels.threshold_rounds import push_state
    from calibrant.kernels.threshold_search import search_all_cuts, search_some_cuts
    from calibrant.kernels.uniformity import distances_of_sides
    from calibrant.kernels.venn_abers import added_levels, sum_diagram

_HOME = {
    "added_levels": "venn_abers",
    "average_blocks": "columns",
    "block_shares": "columns",
    "bound_splits": "threshold_grid",
    "choose_maps": "level_maps",
    "count_cells": "curves",
    "count_distinct": "sorting",
    "count_hits": "refit",
    "count_in_cells": "fold",
    "count_samples": "piecewise",
    "distances_of_sides": "uniformity",
    "evaluate_pieces": "piecewise",
    "falls_of_all_pairs": "all_pairs",
    "fill_bins": "mimic",
    "find_ranges": "fold",
    "fit_rising_curve": "spline",
    "flag_vertices": "fold",
    "fold_groups": "fold",
    "fold_rows": "fold",
    "follow_near_isotonic": "near_isotonic",
    "index_knots": "level_maps",
    "interpolate": "lookup",
    "invert_pieces": "piecewise",
    "join_lanes": "columns",
    "measure_columns": "columns",
    "measure_splits": "threshold_grid",
    "mend_order": "sorting",
    "merge_bins": "mimic",
    "merge_cells": "fold",
    "merge_runs": "fold",
    "multiply_rows": "softmax",
    "pack_signed": "sorting",
    "pick_samples": "piecewise",
    "pool_columns": "columns",
    "pool_keys": "pav",
    "pool_shifted": "columns",
    "pool_weighted": "pav",
    "push_levels": "level_maps",
    "push_lines": "level_maps",
    "push_slopes": "level_maps",
    "push_state": "threshold_rounds",
    "radix_sort": "sorting",
    "refit_drawn_labels": "refit",
    "rise_at_a_price": "nearly",
    "rise_at_a_price_of_all_pairs": "all_pairs",
    "rise_with_slack": "slack",
    "rows_in_bins": "binning",
    "run_lengths": "sorting",
    "score_pieces": "piecewise",
    "score_samples": "piecewise",
    "scores_in_cells": "curves",
    "search_all_cuts": "threshold_search",
    "search_some_cuts": "threshold_search",
    "slope_of_pieces": "piecewise",
    "split_ranges": "fold",
    "split_steps": "columns",
    "step_lane": "columns",
    "sum_between": "curves",
    "sum_bins": "binning",
    "sum_cells": "binning",
    "sum_diagram": "venn_abers",
    "take_step": "lookup",
    "weighted_runs": "sorting",
}

__all__ = [
    "added_levels",
    "average_blocks",
    "block_shares",
    "bound_splits",
    "choose_maps",
    "count_cells",
    "count_distinct",
    "count_hits",
    "count_in_cells",
    "count_samples",
    "distances_of_sides",
    "evaluate_pieces",
    "falls_of_all_pairs",
    "fill_bins",
    "find_ranges",
    "fit_rising_curve",
    "flag_vertices",
    "fold_groups",
    "fold_rows",
    "follow_near_isotonic",
    "index_knots",
    "interpolate",
    "invert_pieces",
    "join_lanes",
    "measure_columns",
    "measure_splits",
    "mend_order",
    "merge_bins",
    "merge_cells",
    "merge_runs",
    "multiply_rows",
    "pack_signed",
    "pick_samples",
    "pool_columns",
    "pool_keys",
    "pool_shifted",
    "pool_weighted",
    "push_levels",
    "push_lines",
    "push_slopes",
    "push_state",
    "radix_sort",
    "refit_drawn_labels",
    "rise_at_a_price",
    "rise_at_a_price_of_all_pairs",
    "rise_with_slack",
    "rows_in_bins",
    "run_lengths",
    "score_pieces",
    "score_samples",
    "scores_in_cells",
    "search_all_cuts",
    "search_some_cuts",
    "slope_of_pieces",
    "split_ranges",
    "split_steps",
    "step_lane",
    "sum_between",
    "sum_bins",
    "sum_cells",
    "sum_diagram",
    "take_step",
    "weighted_runs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"calibrant.kernels.{_HOME[name]}"), name)
