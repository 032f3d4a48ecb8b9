"""The project's compiled loops. Importing this folder imports no compiler; the first use of a loop does."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.kernels.binning import rows_in_bins, sum_bins, sum_cells
    from calibrant.kernels.column_arrays import (
        NEIGHBOURS,
        PAIRS,
        SLACK,
        Rule,
        SortedColumns,
        SplittingArrays,
        Workspace,
    )
    from calibrant.kernels.columns import (
        average_blocks,
        block_shares,
        join_workers,
        measure_columns,
        minimise_lagrangian,
        pool_columns,
        take_steps,
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
    from calibrant.kernels.relaxed_order import fit_relaxed, sum_pair_violations
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
    "WEIGHT": "column_arrays",
    "ROW": "column_arrays",
    "PENALTY": "column_arrays",
    "Rule": "column_arrays",
    "SortedColumns": "column_arrays",
    "SplittingArrays": "column_arrays",
    "Workspace": "column_arrays",
    "join_workers": "columns",
    "minimise_lagrangian": "columns",
    "take_steps": "columns",
    "fit_relaxed": "relaxed_order",
    "sum_pair_violations": "relaxed_order",
    "NEIGHBOURS": "column_arrays",
    "PAIRS": "column_arrays",
    "SLACK": "column_arrays",
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
    "pool_weighted": "pav",
    "push_levels": "level_maps",
    "push_lines": "level_maps",
    "push_slopes": "level_maps",
    "push_state": "threshold_rounds",
    "radix_sort": "sorting",
    "refit_drawn_labels": "refit",
    "rows_in_bins": "binning",
    "run_lengths": "sorting",
    "score_pieces": "piecewise",
    "score_samples": "piecewise",
    "scores_in_cells": "curves",
    "search_all_cuts": "threshold_search",
    "search_some_cuts": "threshold_search",
    "slope_of_pieces": "piecewise",
    "split_ranges": "fold",
    "sum_between": "curves",
    "sum_bins": "binning",
    "sum_cells": "binning",
    "sum_diagram": "venn_abers",
    "take_step": "lookup",
    "weighted_runs": "sorting",
}

__all__ = [
    "NEIGHBOURS",
    "PAIRS",
    "PENALTY",
    "ROW",
    "SLACK",
    "WEIGHT",
    "Rule",
    "SortedColumns",
    "SplittingArrays",
    "Workspace",
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
    "fill_bins",
    "find_ranges",
    "fit_relaxed",
    "fit_rising_curve",
    "flag_vertices",
    "fold_groups",
    "fold_rows",
    "follow_near_isotonic",
    "index_knots",
    "interpolate",
    "invert_pieces",
    "join_workers",
    "measure_columns",
    "measure_splits",
    "mend_order",
    "merge_bins",
    "merge_cells",
    "merge_runs",
    "minimise_lagrangian",
    "multiply_rows",
    "pack_signed",
    "pick_samples",
    "pool_columns",
    "pool_keys",
    "pool_weighted",
    "push_levels",
    "push_lines",
    "push_slopes",
    "push_state",
    "radix_sort",
    "refit_drawn_labels",
    "rows_in_bins",
    "run_lengths",
    "score_pieces",
    "score_samples",
    "scores_in_cells",
    "search_all_cuts",
    "search_some_cuts",
    "slope_of_pieces",
    "split_ranges",
    "sum_between",
    "sum_bins",
    "sum_cells",
    "sum_diagram",
    "sum_pair_violations",
    "take_step",
    "take_steps",
    "weighted_runs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"calibrant.kernels.{_HOME[name]}"), name)
