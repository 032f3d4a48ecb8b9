"""Settings of a training run, in memory and as TOML."""

from __future__ import annotations

import json
import os
import re
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, get_args

import numpy as np

from calibrant import persistence
from calibrant.calibrators import ALIASES, CALIBRATORS
from calibrant.errors import InvalidInputError, InvalidTypeError, unknown_name
from calibrant.training.calibration import SPECIFIED, WHEN, When
from calibrant.training.equity import check_cost
from calibrant.training.estimators import is_estimator_name
from calibrant.training.labels import LABEL_KINDS, check_distances
from calibrant.training.models import MODELS
from calibrant.training.sizing import StakeKind
from calibrant.training.windows import HISTORIES, NO_WINDOWS, History, check_walk_forward
from calibrant.validation import check_choice, check_flag, check_fraction, check_integer

ClassWeight = Literal["none", "balanced"]
#: The table of a run's config.toml that says what the run found, and is not read back.
FOUND = "found"
#: Settings that are of one kind of rows: of bars, or of a table.
OF_BARS = ("data", "horizon", "profit", "stop", "band")
OF_TABLES = ("table", "time", "label_end", "features", "score", "symbol", "price_return")
#: Settings that are of the models that a run trains.
OF_MODELS = ("model", "features", "class_weight", "uniqueness", "validation", "stop_share", "n_threads", "params")
#: Names that files and folders can have.
FILE_NAME = re.compile(r"[\w-][\w.-]*")
#: What the libraries of the models hold in 32 bits.
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Settings of a training run.

    Attributes
    ----------
    model : str
        Name of the model, one of `calibrant.training.models.MODELS`, or module:Class of a classifier with the
        interface of scikit-learn.
    horizon : int
        The most bars that a label takes.
    data : str
        File of bars; empty for the bars that ship with a dependency.
    label : {"triple_barrier", "sign", "binary"} or str
        How bars are labelled; of a table, the column of the labels, of any classes.
    table : str
        File of rows with features of one's own, in place of bars.
    time, label_end : str
        Columns of a table: when a row is predicted, and when its label is known; without the latter, at once.
    features : tuple of str
        Columns of a table that a model is told; all other columns by default, which must then be numbers.
    score : dict of tuple of str
        Of a table that holds predictions, in place of features: the columns of each model, by its name.
    symbol, price_return : str
        Columns of a table that it may have: what a row is of, and the simple return from its time to its label's end.
    profit, stop, band : float
        Barriers, and the band of "sign"; see `calibrant.training.labels.label_bars`.
    calibrator : str
        Name of a calibrator, or "specified" for `ProbabilityCalibrator`.
    calibrate : {"auto", "if_better", "always"}
        Whether the calibrator is used: "always", or "if_better" where it lowers the log loss of folds in time of the
        validation part that it was not fitted to. "auto" is that for a temperature below one, which makes
        probabilities surer, and always for anything else.
    class_weight : {"none", "balanced"}
        "balanced" gives all classes the same weight in training; probabilities are corrected for that before they
        are calibrated.
    uniqueness : bool
        Whether training rows are weighted by how little their labels overlap others.
    validation, test : float
        Share of the rows that calibrators are fitted on, and that figures are measured on: the last ones in time.
    stop_share : float
        Share of the rows before these that only tells boosting when to stop: their last ones.
    embargo : int
        Bars of the same symbol that have to lie between the end of a label and the part of the data that comes next:
        they take at least as many usual steps, and more over weekends and gaps. Of a table, usual steps between times.
    walk_forward : int or {"month", "quarter", "year"}
        Cut the last `test` share of the rows into so many windows, or by the calendar, and refit before each; "" for
        one test part.
    history : {"expanding", "rolling"}
        What is fitted to before a window: all rows, or as many as before the first window, the latest.
    stakes : {"linear", "kelly", "flat"}
        How stakes follow from the probabilities: see `calibrant.training.StakeRule`.
    cost_bp : float
        Of opening and of closing a position, in basis points (hundredths of a percent) of the capital moved.
    seed, n_threads : int
    params : dict
        Settings that go to the model's library as they are.

    Raises
    ------
    CalibrantError
        If a value can't be used.
    """

    model: str = "xgboost"
    horizon: int = 20
    data: str = ""
    label: str = "triple_barrier"
    table: str = ""
    time: str = ""
    label_end: str = ""
    features: tuple[str, ...] = ()
    score: dict[str, tuple[str, ...]] = field(default_factory=dict)
    symbol: str = ""
    price_return: str = ""
    profit: float = 0.75
    stop: float = 0.75
    band: float = 0.43
    calibrator: str = "temperature"
    calibrate: When = "auto"
    class_weight: ClassWeight = "none"
    uniqueness: bool = True
    validation: float = 0.2
    test: float = 0.2
    stop_share: float = 0.15
    embargo: int = 0
    walk_forward: int | str = NO_WINDOWS
    history: History = "expanding"
    stakes: StakeKind = "linear"
    cost_bp: float = 5.0
    seed: int = 0
    n_threads: int = 1
    params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.model, str):
            raise InvalidTypeError(f"model={self.model!r:.80} is not a string. Pass a name, or module:Class.")
        if self.model not in [*MODELS, "sklearn"] and not is_estimator_name(self.model):
            raise unknown_name("model", self.model, MODELS)
        for name, least in (("horizon", 1), ("n_threads", 1), ("embargo", 0), ("seed", 0)):
            check_integer(name, getattr(self, name), minimum=least, maximum=_LARGEST)
        for name in ("validation", "test", "stop_share"):
            check_fraction(name, getattr(self, name))
        if self.validation + self.test >= 0.9:
            raise InvalidInputError(
                f"validation={self.validation} and test={self.test} leave less than a tenth of the rows to train on. "
                "Lower one of them."
            )
        self._check_columns()
        check_walk_forward(self.walk_forward)
        check_choice("history", self.history, HISTORIES)
        if self.history != HISTORIES[0] and self.walk_forward == NO_WINDOWS:
            raise InvalidInputError(
                f"history={self.history!r} says what is fitted to before each window, and there are none. Pass "
                "walk_forward too, or leave history out."
            )
        check_choice("calibrate", self.calibrate, WHEN)
        check_choice("class_weight", self.class_weight, get_args(ClassWeight))
        check_choice("stakes", self.stakes, get_args(StakeKind))
        check_cost(self.cost_bp)
        check_distances(self.profit, self.stop, self.band)
        check_flag("uniqueness", self.uniqueness)
        calibrators = [SPECIFIED, *CALIBRATORS, *ALIASES]
        if self.calibrator not in calibrators:
            raise unknown_name("calibrator", self.calibrator, calibrators)
        params: Any = self.params
        if not isinstance(params, dict) or not all(isinstance(name, str) for name in params):
            raise InvalidTypeError(f"params={self.params!r:.80} is no table. Pass settings by name.")
        _value("params", self.params)  # what config.toml can't hold is refused before anything is trained

    def _check_columns(self) -> None:
        """Check what names the rows: settings of bars go with no table, and those of a table with no bars."""
        for name in ("data", "table", "label", "time", "label_end", "symbol", "price_return"):
            if not isinstance(getattr(self, name), str):
                what = {"data": "a file of bars", "table": "a file"}.get(name, "a column")
                raise InvalidTypeError(f"{name}={getattr(self, name)!r} is not a string. Name {what}.")
        features: Any = self.features
        if not isinstance(features, (list, tuple)) or not all(isinstance(name, str) for name in features):
            raise InvalidTypeError(f"features={features!r:.80} is no list of names. Name columns of the table.")
        object.__setattr__(self, "features", tuple(features))
        object.__setattr__(self, "score", _checked_score(self.score))
        usual = {entry.name: entry.default for entry in fields(self) if entry.default is not MISSING}
        if not self.table:
            for name in OF_TABLES[1:]:
                if getattr(self, name) != usual.get(name, {}):
                    raise InvalidInputError(
                        f"{name}={getattr(self, name)!r:.80} is of a table, and none is named. Name it: table."
                    )
            check_choice("label", self.label, LABEL_KINDS)
            return
        for name in OF_BARS:
            if getattr(self, name) != usual[name]:
                raise InvalidInputError(
                    f"{name}={getattr(self, name)!r:.80} is of bars, and table={self.table!r} is named. Leave one out: "
                    "a table says by label_end when a label is known."
                )
        if self.label == usual["label"] or not self.label or not self.time:
            raise InvalidInputError(
                f"table={self.table!r} needs the names of two of its columns: label, and time, when a row is predicted."
            )
        if self.score and self.features:
            raise InvalidInputError(
                f"features={self.features!r:.80} go with no score, the columns of predictions. Leave one out."
            )

    def rows_name(self) -> str:
        """Return what rows are called in the names of runs: by the horizon, or by the table."""
        if self.table:
            return "predictions" if self.score else "table"
        return f"h{self.horizon}"

    def describe_rows(self) -> str:
        """Return what the labels are, in words."""
        return f"horizon {self.horizon}" if not self.table else f"label {self.label!r}"

    def of_library(self) -> dict[str, Any]:
        """Return what a model's library is told."""
        return {"seed": self.seed, "n_threads": self.n_threads, "params": self.params}

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def used(self) -> dict[str, Any]:
        """Return the settings that count for rows of this kind, by name."""
        unused = [*OF_BARS, *(OF_MODELS if self.score else ("score",))] if self.table else OF_TABLES
        return {name: value for name, value in self.to_dict().items() if name not in unused}

    def to_toml(self, found: dict[str, Any] | None = None) -> str:
        """Return the settings as TOML, and beside them what a run found, in a table that is not read back."""
        settings = self.used()
        params = settings.pop("params", {})
        parts = [_lines(settings)]
        if params:
            parts.append("[params]\n" + _lines(params))
        if found:
            parts.append(f"[{FOUND}]\n" + _lines(found))
        return "\n".join(parts)


def _checked_score(score: Any) -> dict[str, tuple[str, ...]]:
    """Check the columns of models by name: names that a folder can have, each with a list of columns."""
    if not isinstance(score, dict) or not all(
        isinstance(columns, (list, tuple)) and columns and all(isinstance(column, str) for column in columns)
        for columns in score.values()
    ):
        raise InvalidTypeError(
            f"score={score!r:.80} is no table of columns by model. Pass one, such as {{'model': ['p_a', 'p_b']}}."
        )
    for name in score:
        if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
            raise InvalidInputError(f"score names a model {name!r:.80}. Use letters, digits, '_', '-' and '.' only.")
    return {name: tuple(columns) for name, columns in score.items()}


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the settings in a TOML file, such as the config.toml of a run, by name.

    Raises
    ------
    CalibrantError
        If it is no TOML, or names a setting that doesn't exist.
    """
    document = persistence.read_toml(path)
    document.pop(FOUND, None)
    known = [entry.name for entry in fields(TrainConfig)]
    for name in document:
        if name not in known:
            raise unknown_name(f"setting in {os.fspath(path)}:", name, known)
    return document


def _lines(values: dict[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_value(name, value)}\n" for name, value in values.items())


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _value(name: str, value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (bool, int, float)):
        return repr(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(name, item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(key, item)}" for key, item in value.items()) + "}"
    raise InvalidTypeError(f"setting {name!r} is a {type(value).__name__}. Pass a number, a string, or a list of them.")
