"""The compiled loops by name: the one place where these are written."""

from calibrant.kernels._jit import (
    can_compile as can_compile,
    compile_at_once as compile_at_once,
    kept_loops as kept_loops,
)
from calibrant.kernels.binning import (
    count_fine_bins as count_fine_bins,
    rows_in_bins as rows_in_bins,
    scores_in_fine_bins as scores_in_fine_bins,
    sum_between as sum_between,
    sum_bins as sum_bins,
    sum_cells as sum_cells,
)
from calibrant.kernels.column_arrays import (
    NEIGHBOURS as NEIGHBOURS,
    PAIRS as PAIRS,
    RELAXATION as RELAXATION,
    ROW as ROW,
    SHARE as SHARE,
    SLACK as SLACK,
    WEIGHT as WEIGHT,
    Rule as Rule,
    SortedColumns as SortedColumns,
    SplittingArrays as SplittingArrays,
    Workspace as Workspace,
)
from calibrant.kernels.columns import (
    average_blocks as average_blocks,
    block_shares as block_shares,
    join_workers as join_workers,
    measure_columns as measure_columns,
    minimise_lagrangian as minimise_lagrangian,
    pool_columns as pool_columns,
    take_steps as take_steps,
)
from calibrant.kernels.compiling_note import tell_of_compiling as tell_of_compiling
from calibrant.kernels.coupling import couple_rows as couple_rows
from calibrant.kernels.fold import (
    COARSER as COARSER,
    DEEP_OCTAVES as DEEP_OCTAVES,
    LOWEST_EXPONENT as LOWEST_EXPONENT,
    PROBABILITY_OCTAVES as PROBABILITY_OCTAVES,
    SCORE_OCTAVES as SCORE_OCTAVES,
    add_to_leaves as add_to_leaves,
    flag_vertices as flag_vertices,
    fold_groups as fold_groups,
    fold_rows as fold_rows,
    merge_cells as merge_cells,
    merge_runs as merge_runs,
    step_down as step_down,
)
from calibrant.kernels.level_maps import map_levels as map_levels
from calibrant.kernels.lookup import interpolate as interpolate, take_step as take_step
from calibrant.kernels.mimic import fill_bins as fill_bins, merge_bins as merge_bins
from calibrant.kernels.pav import pool_keys as pool_keys, pool_weighted as pool_weighted
from calibrant.kernels.piecewise import (
    piecewise_cdf as piecewise_cdf,
    piecewise_crps as piecewise_crps,
    piecewise_density as piecewise_density,
    piecewise_quantiles as piecewise_quantiles,
    sample_cdf as sample_cdf,
    sample_crps as sample_crps,
    sample_quantiles as sample_quantiles,
)
from calibrant.kernels.relaxed_order import fit_relaxed as fit_relaxed, sum_pair_violations as sum_pair_violations
from calibrant.kernels.segment_walks import (
    DRAWS as DRAWS,
    taken_moments as taken_moments,
    widest_walks as widest_walks,
)
from calibrant.kernels.softmax import multiply_rows as multiply_rows
from calibrant.kernels.sorting import (
    NEAR as NEAR,
    KeyArray as KeyArray,
    count_distinct as count_distinct,
    finish_order as finish_order,
    near_starts as near_starts,
    pack_signed as pack_signed,
    radix_sort as radix_sort,
    run_lengths as run_lengths,
    weighted_runs as weighted_runs,
)
from calibrant.kernels.threshold_rounds import (
    map_state as map_state,
    search_all_cuts as search_all_cuts,
    search_grid as search_grid,
    search_some_cuts as search_some_cuts,
)
from calibrant.kernels.trades import share_capital as share_capital
from calibrant.kernels.trees import (
    BIT_OF_BEGINNING as BIT_OF_BEGINNING,
    MOST_LEAVES as MOST_LEAVES,
    TreeTables as TreeTables,
    sum_trees as sum_trees,
)
from calibrant.kernels.uniformity import distances_of_sides as distances_of_sides
from calibrant.kernels.venn_abers import added_levels as added_levels, following_vertices as following_vertices
