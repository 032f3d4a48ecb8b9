"""Train, calibrate and judge a model of market bars, in the order of time and without leaks.

The parts are modules: `bars` and `features`, `labels`, `dataset` and `holdout`, `models`, `trainer`, `run_folder`.
"""
