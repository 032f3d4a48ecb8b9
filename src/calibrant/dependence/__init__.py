"""Rows that are not independent: clusters, labels that overlap in time, folds and splits that respect both."""

from calibrant.dependence.folds import (
    cluster_folds as cluster_folds,
    stratified_blocks as stratified_blocks,
    stratified_folds as stratified_folds,
    time_blocks as time_blocks,
)
from calibrant.dependence.hints import dependence_hint as dependence_hint
from calibrant.dependence.overlap import (
    Blocks as Blocks,
    block_draws as block_draws,
    block_length as block_length,
    effective_rows as effective_rows,
    label_blocks as label_blocks,
    label_uniqueness as label_uniqueness,
    label_uniqueness_in_time as label_uniqueness_in_time,
    overlapping as overlapping,
    serial_blocks as serial_blocks,
)
from calibrant.dependence.purged import (
    CombinatorialPurgedKFold as CombinatorialPurgedKFold,
    PurgedKFold as PurgedKFold,
    PurgedTimeSeriesSplit as PurgedTimeSeriesSplit,
)
from calibrant.dependence.times import (
    TimeArray as TimeArray,
    as_label_times as as_label_times,
    as_times as as_times,
    check_both_times as check_both_times,
    has_zone as has_zone,
)
from calibrant.dependence.units import (
    Dependence as Dependence,
    MeanError as MeanError,
    Units as Units,
    read_dependence as read_dependence,
    t_quantile as t_quantile,
)
