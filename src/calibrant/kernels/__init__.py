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
    from calibrant.kernels.level_maps import choose_maps, index_knots, map_levels, map_slopes
    from calibrant.kernels.lookup import interpolate, take_step
    from calibrant.kernels.mimic import fill_bins, merge_bins
    from calibrant.kernels.near_isotonic import follow_near_isotonic
    from calibrant.kernels.nearly import rise_at_a_price
    from calibrant.kernels.pav import pool_keys, pool_weighted
    from calibrant.kernels.piecewise import (
        piecewise_cdf,
        piecewise_crps,
        piecewise_density,
        piecewise_quantiles,
        sample_cdf,
        sample_crps,
        sample_quantiles,
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
    from calibrant.kernels.threshold_rounds import map_state, search_all_cuts, search_grid, search_some_cuts
    from calibrant.kernels.uniformity import distances_of_sides
    from calibrant.kernels.venn_abers import added_levels, sum_diagram

_HOME = {
    "added_levels": "venn_abers",
    "average_blocks": "columns",
    "block_shares": "columns",
    "choose_maps": "level_maps",
    "count_cells": "curves",
    "count_distinct": "sorting",
    "count_hits": "refit",
    "count_in_cells": "fold",
    "distances_of_sides": "uniformity",
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
    "join_lanes": "columns",
    "map_levels": "level_maps",
    "map_slopes": "level_maps",
    "map_state": "threshold_rounds",
    "measure_columns": "columns",
    "mend_order": "sorting",
    "merge_bins": "mimic",
    "merge_cells": "fold",
    "merge_runs": "fold",
    "multiply_rows": "softmax",
    "pack_signed": "sorting",
    "piecewise_cdf": "piecewise",
    "piecewise_crps": "piecewise",
    "piecewise_density": "piecewise",
    "piecewise_quantiles": "piecewise",
    "pool_columns": "columns",
    "pool_keys": "pav",
    "pool_shifted": "columns",
    "pool_weighted": "pav",
    "radix_sort": "sorting",
    "refit_drawn_labels": "refit",
    "rise_at_a_price": "nearly",
    "rise_at_a_price_of_all_pairs": "all_pairs",
    "rise_with_slack": "slack",
    "rows_in_bins": "binning",
    "run_lengths": "sorting",
    "sample_cdf": "piecewise",
    "sample_crps": "piecewise",
    "sample_quantiles": "piecewise",
    "scores_in_cells": "curves",
    "search_all_cuts": "threshold_rounds",
    "search_grid": "threshold_rounds",
    "search_some_cuts": "threshold_rounds",
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
    "choose_maps",
    "count_cells",
    "count_distinct",
    "count_hits",
    "count_in_cells",
    "distances_of_sides",
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
    "join_lanes",
    "map_levels",
    "map_slopes",
    "map_state",
    "measure_columns",
    "mend_order",
    "merge_bins",
    "merge_cells",
    "merge_runs",
    "multiply_rows",
    "pack_signed",
    "piecewise_cdf",
    "piecewise_crps",
    "piecewise_density",
    "piecewise_quantiles",
    "pool_columns",
    "pool_keys",
    "pool_shifted",
    "pool_weighted",
    "radix_sort",
    "refit_drawn_labels",
    "rise_at_a_price",
    "rise_at_a_price_of_all_pairs",
    "rise_with_slack",
    "rows_in_bins",
    "run_lengths",
    "sample_cdf",
    "sample_crps",
    "sample_quantiles",
    "scores_in_cells",
    "search_all_cuts",
    "search_grid",
    "search_some_cuts",
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
