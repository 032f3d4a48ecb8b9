"""What the pipeline offers by name; each is loaded when it is first used."""

from calibrant.training.bars import Bars as Bars, as_bars as as_bars, read_bars as read_bars
from calibrant.training.bundle import Bundle as Bundle, Member as Member, Prediction as Prediction
from calibrant.training.config import TrainConfig as TrainConfig, read_config as read_config
from calibrant.training.equity import Equity as Equity, buy_and_hold as buy_and_hold, trade as trade
from calibrant.training.mlflow_export import export_to_mlflow as export_to_mlflow
from calibrant.training.out_of_fold import (
    OutOfFold as OutOfFold,
    out_of_fold_predictions as out_of_fold_predictions,
)
from calibrant.training.refresh import RefreshResult as RefreshResult, refresh_run as refresh_run
from calibrant.training.run_folder import Run as Run, find_run as find_run, list_runs as list_runs, load_run as load_run
from calibrant.training.sizing import (
    StakeRule as StakeRule,
    kelly_stakes as kelly_stakes,
    linear_stakes as linear_stakes,
)
from calibrant.training.sources import open_source as open_source
from calibrant.training.stacking import MetaLearner as MetaLearner, fit_meta_learner as fit_meta_learner
from calibrant.training.stake_errors import (
    SizingError as SizingError,
    SizingReduction as SizingReduction,
    sizing_error as sizing_error,
    sizing_reduction as sizing_reduction,
)
from calibrant.training.thresholds import (
    ThresholdChoice as ThresholdChoice,
    ThresholdResult as ThresholdResult,
    choose_threshold as choose_threshold,
    threshold_table as threshold_table,
)
from calibrant.training.training_run import (
    run_predictions as run_predictions,
    run_stack as run_stack,
    run_training as run_training,
)

# For other folders of calibrant; no part of the public API.
# isort: split
from calibrant.training.calibration import SPECIFIED as SPECIFIED
from calibrant.training.estimators import is_estimator_name as is_estimator_name
from calibrant.training.given_predictions import find_scores as find_scores
from calibrant.training.labels import LABEL_KINDS as LABEL_KINDS
from calibrant.training.metrics_report import (
    AFTER as AFTER,
    BEFORE as BEFORE,
    LEVEL as LEVEL,
    NO_SKILL as NO_SKILL,
    has_skill as has_skill,
    is_no_worse as is_no_worse,
)
from calibrant.training.models import MODELS as MODELS
from calibrant.training.money import HOLD as HOLD, NEARLY_ALL as NEARLY_ALL
from calibrant.training.out_of_fold import VARIANTS as VARIANTS
from calibrant.training.refresh_gate import PAIRED_WITH as PAIRED_WITH
from calibrant.training.run_folder import DEFAULT_ROOT as DEFAULT_ROOT
from calibrant.training.stacking import CLASS_FREQUENCIES as CLASS_FREQUENCIES
from calibrant.training.walk_forward import harm_text as harm_text
from calibrant.training.windows import CALENDARS as CALENDARS
