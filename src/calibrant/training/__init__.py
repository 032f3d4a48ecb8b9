"""Train, calibrate and judge models of market bars, in the order of time and without leaks.

Data: `bars`, `features`, `labels`, `dataset`. Models: `models`, `calibration`, and `trainer` for one, `windows` and
`walk_forward` for one that is refitted as time goes on, `out_of_fold` and `stacking` for several. The run:
`training_run`, `metrics_report`, `run_folder`. What the probabilities are worth to who trades: `sizing`,
`stake_errors`, `equity`, `thresholds`, `money`. Intervals for labels that overlap: `block_bootstrap`.
"""

from calibrant._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
