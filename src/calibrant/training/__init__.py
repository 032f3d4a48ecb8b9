"""Train, calibrate and judge a model of market bars, in the order of time and without leaks.

The parts are modules: `bars` and `features`, `labels`, `dataset` and `holdout`, `models`, `trainer`, `run_folder`.
Several models at once: `out_of_fold`, `stacking` and `stack_run`. What to do with the probabilities: `sizing`,
`thresholds` and `acting`. Intervals for labels that overlap: `paired`.
"""
