"""Splits of rows in time whose labels take time to end: no label of a training row reaches into the test."""

from calibrant.dependence import (
    CombinatorialPurgedKFold as CombinatorialPurgedKFold,
    PurgedKFold as PurgedKFold,
    PurgedTimeSeriesSplit as PurgedTimeSeriesSplit,
)
