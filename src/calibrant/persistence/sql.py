"""to_sql: a fitted calibrator as one SELECT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calibrant.applicable import Applicable
from calibrant.errors import InvalidInputError, InvalidTypeError, MissingPackageError
from calibrant.fitted import Fitted
from calibrant.persistence.dialects import Dialect, DialectName, dialect_of
from calibrant.persistence.documents import check_fitted
from calibrant.persistence.sql_builder import SqlBuilder
from calibrant.persistence.sql_query import Expression, Query
from calibrant.phrases import has_half_pair, quoted
from calibrant.terms import Term
from calibrant.validation import check_integer, column_places


def to_sql(
    calibrator: Any,
    dialect: DialectName = "duckdb",
    *,
    columns: str | Sequence[str] | None = None,
    table: str = "scores",
    keep: Sequence[str] = (),
    output: str | None = None,
    largest_case: int = 128,
) -> str:
    """Return one SELECT that gives the calibrated probabilities of the scores in a table.

    Parameters
    ----------
    calibrator : fitted calibrator
    dialect : {"duckdb", "spark", "postgres", "bigquery", "snowflake", "sqlite"}
    columns : str or sequence of str, optional
        The column of the scores, or one for each class; by default those that it was fitted to, else "score" where
        one is enough.
    table : str
        What stands after FROM: a table, such as ``sales.scores``, a function such as ``read_parquet('s.parquet')``, or
        a query in brackets.
    keep : sequence of str
        Columns that go into the result as they are, before the probabilities.
    output : str, optional
        Name of the probability, by default ``p_calibrated``; of several, what comes before ``_CLASS``. Of a calibrator
        of numbers that of the prediction, by default ``calibrated``.
    largest_case : int
        Maps of more steps or pieces than this are joined as a table of constants; smaller ones are a balanced tree
        of CASE.

    Returns
    -------
    sql : str
        Without a semicolon, to run, to make a view of or to select from.

    Raises
    ------
    NotFittedError
        If the calibrator has not been fitted.
    MissingPackageError
        If sqlglot, which writes the SQL, is not installed.
    CalibrantError
        If an argument can't be used, or the map has no form in SQL: rows coupled by likelihood, which AutoCalibrator
        leaves out with ``exportable="sql"``.

    Notes
    -----
    What `predict_proba` refuses becomes NULL: a score that is NULL, NaN, infinite, no number or, where they are
    probabilities, outside [0, 1], and a row of probabilities whose sum is not within 0.01 of one. PostgreSQL and
    Snowflake have no cast that gives NULL in place of an error: there a column of text must hold numbers only. A column
    of a type that the engine never casts to a number, such as a date of Spark or BigQuery, is an error of the query.

    Names are quoted. Of Snowflake, one of small letters, digits and _ stands for that in capitals, as without quotes.
    PostgreSQL cuts names at 63 bytes: two that it would take for one are refused, and so is for Spark a name with
    ``${...}``, which it replaces by a variable even in quotes.

    Numbers are written so that the engine reads the very float64. Results equal those of `predict_proba` but for the
    last digits of the engine's exp and ln. PostgreSQL, BigQuery and Snowflake may refuse what leaves the range of
    float64: there probabilities end at 1e-304, and scores within 1e-150 of zero count as zero in products.
    Below about 1e-304 the logit of a probability is lost everywhere: blends of methods may then differ by up to 0.01.

    Features are columns of the table under the names of the fit. Numbers and whole-number levels are read by a cast to
    DOUBLE, truth values by one to BOOLEAN, other levels by one to text. NULL, NaN, infinity, a level that the fit has
    not seen and, but for PostgreSQL and Snowflake, what can't be cast are missing values. Whole-number levels from
    2**53 on are refused. Trees are nested CASE, a hundred bytes for each leaf; BigQuery and Snowflake take queries of
    1 MiB, and longer ones are refused.

    Rows come in any order, as of any SELECT. Large maps are joined by equality on a block of pieces and a range.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.HistogramCalibrator(n_bins=2).fit([0.125, 0.25, 0.75, 0.875], [0, 0, 0, 1])
    >>> print(cb.persistence.to_sql(calibrator, "bigquery", keep=["id"]))
    WITH cal_stage_0 AS (
      SELECT
        `id`,
        CASE
          WHEN SAFE_CAST(`score` AS FLOAT64) BETWEEN 0.0 AND 1.0
          THEN SAFE_CAST(`score` AS FLOAT64)
        END AS cal_1
      FROM scores
    ), cal_stage_1 AS (
      SELECT
        `id`,
        cal_1,
        CASE WHEN cal_1 <= 0.5 THEN 0.0 ELSE 0.5 END AS cal_2
      FROM cal_stage_0
    )
    SELECT
      `id`,
      CASE WHEN NOT cal_1 IS NULL THEN cal_2 END AS `p_calibrated`
    FROM cal_stage_1
    """
    fitted = check_fitted(calibrator, Applicable, "export")
    fitted.check_exportable()
    written_in = dialect_of(dialect)
    check_integer("largest_case", largest_case, minimum=1)
    names = column_names(score_columns(fitted, columns), "columns", written_in)
    (prefix,) = column_names([fitted.default_column if output is None else output], "output")
    outputs = column_names(fitted.output_names(prefix, len(names)), "output", written_in)

    def make(builder: SqlBuilder, columns: Sequence[Expression]) -> Sequence[Expression]:
        scores = [builder.source(column, *fitted.score_range) for column in columns]
        found: Sequence[Expression] = fitted.usable_formula(builder, Term(builder, tuple(scores)), len(names)).payload
        return found

    given: dict[str, Any] = {"table": table, "keep": keep, "largest_case": largest_case}
    return select_of(dialect, names, outputs, make, features=fitted.feature_names, **given)


def select_of(
    dialect: DialectName,
    names: Sequence[str],
    outputs: Sequence[str],
    make: Callable[[SqlBuilder, Sequence[Expression]], Sequence[Expression]],
    *,
    table: str,
    keep: Sequence[str],
    features: Sequence[str] = (),
    largest_case: int = 128,
) -> str:
    """Return one SELECT of a table: the columns to keep, and the outputs that `make` makes of the columns `names`.

    `make` takes the columns as expressions, and gives one for each output; of `features` it takes the names. For the
    rest see `to_sql`.
    """
    written_in = dialect_of(dialect)
    kept = column_names(keep, "keep", written_in)
    read = column_names(features, "features", written_in)
    _check_distinct(written_in, names, "the scores", "Pass each column once, under a shorter name.")
    read_once = dict.fromkeys([*names, *read])  # a score may be a feature too
    _check_distinct(written_in, list(read_once), "the table", "Fit to features under names that differ in more.")
    _check_distinct(written_in, [*kept, *outputs], "the result", "Leave it out of keep, or pass another output.")
    try:
        import sqlglot
    except ImportError:
        raise MissingPackageError("SQL is written by sqlglot: pip install 'calibrant[sql]'") from None
    source = _source(sqlglot, table, dialect)
    written = [*names, *read, *kept, *outputs]
    query = Query(written_in, _prefix([*written, table]))
    b = SqlBuilder(query, largest_case)
    found = make(b, query.named(names))
    made = [column.this for column in query.named(outputs)]
    sql = query.select(source, query.named(kept), list(zip(made, found, strict=True)))
    # Pretty text would indent a line break in a name or text, and make one of sqlglot's own word for it.
    is_plain = not any("\n" in name or "__sqlglot" in name.lower() for name in (*written, *b.texts))
    text = str(sql.sql(dialect, pretty=is_plain))
    longest = written_in.longest_text
    if longest is not None and len(text.encode()) > longest:
        text = str(sql.sql(dialect))
        if len(text.encode()) > longest:
            raise InvalidInputError(
                f"{dialect} takes queries of {longest:,} bytes, and this one has {len(text.encode()):,}. Export to "
                "ONNX, or fit what has fewer steps or trees."
            )
    return text


def score_columns(fitted: Applicable, columns: str | Sequence[str] | None) -> list[str]:
    """Return the names of the columns of scores in the order of the classes: as many as the calibrator takes."""
    if columns is None:
        if fitted.score_names_ is None and isinstance(fitted, Fitted) and not fitted.takes_one:
            raise InvalidInputError(
                f"columns: the calibrator doesn't say which columns it was fitted to. Name one for each of the classes "
                f"{quoted(fitted.classes_.tolist())}."
            )
        names = list(fitted.score_names_ or ("score",))
    else:
        names = column_names([columns] if isinstance(columns, str) else columns, "columns")
    fitted.check_width(len(names), f"columns={names!r:.80}")
    if sorted(names) == sorted(fitted.score_names_ or ()):
        return list(fitted.score_names_ or ())
    places = column_places(names, fitted.classes_.tolist()) if isinstance(fitted, Fitted) else None
    return names if places is None else [names[j] for j in places]


def column_names(given: object, argument: str, dialect: Dialect | None = None) -> list[str]:
    """Return names of columns, or refuse what is none, or what the dialect can't be made to take for one."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidTypeError(f"{argument}={given!r} is a {type(given).__name__}. Pass a list of names of columns.")
    for name in given:
        if not isinstance(name, str) or not name:
            raise InvalidTypeError(f"{argument} holds {name!r}, which is no name. Pass names of columns as text.")
        if "\0" in name or has_half_pair(name):
            raise InvalidInputError(f"{argument} holds {name!r:.80}, a name that no text of SQL can hold. Rename it.")
        if dialect is not None and dialect.variable is not None and dialect.variable.search(name):
            raise InvalidInputError(
                f"{dialect.name} reads a part of the name {name!r:.80} as a variable. Rename the column."
            )
    return list(given)


def _check_distinct(dialect: Dialect, names: Sequence[str], where: str, fix: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(dialect.seen(name))
        if other is not None:
            cut = "" if dialect.longest_name is None else f", of {dialect.longest_name} bytes at most"
            same = "" if other == name else f": {dialect.name} takes it for {other!r}{cut}"
            raise InvalidInputError(f"{where} would have two columns named {name!r}{same}. {fix}")
        seen[dialect.seen(name)] = name


def _prefix(names: Sequence[str]) -> str:
    """Return the beginning of names that nothing else has."""
    prefix, text = "cal_", " ".join(names).lower()
    while prefix in text:
        prefix = f"{prefix[:-1]}x_"
    return prefix


def _source(sqlglot: Any, table: str, dialect: DialectName) -> Expression:
    if not isinstance(table, str):
        raise InvalidTypeError(f"table={table!r} is a {type(table).__name__}. Pass the name of a table as text.")
    try:
        (parsed,) = sqlglot.parse(f"SELECT 1 FROM {table}", dialect=dialect)  # noqa: S608
    except (sqlglot.errors.SqlglotError, ValueError):  # it can't be read, or is two statements
        parsed = None
    found = None if parsed is None else parsed.find(sqlglot.exp.From)
    if found is None or len([part for part in parsed.args.values() if part]) > 2:  # what is selected, and from where
        raise InvalidInputError(
            f"table={table!r} is no single source that {dialect} takes after FROM. Pass the name of a table, in quotes "
            "of that dialect where it needs them, or a query in brackets with AS and a name."
        )
    return found.this
