"""Splits of rows in time whose labels take time to end: no label of a training row reaches into the test."""

from calibrant.splits.purged import CombinatorialPurgedKFold, PurgedKFold, PurgedTimeSeriesSplit

__all__ = ["CombinatorialPurgedKFold", "PurgedKFold", "PurgedTimeSeriesSplit"]
