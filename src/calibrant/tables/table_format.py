"""What a caller says of a file of a table: its format, and how its text is written."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from calibrant.errors import InvalidInputError, unknown_name

Format: TypeAlias = Literal["parquet", "arrow", "csv", "tsv", "jsonl"]
FORMATS: tuple[Format, ...] = get_args(Format)
DELIMITERS = {"csv": ",", "tsv": "\t"}
#: The encoding that text is read in.
UTF8 = "utf-8"


@dataclass(frozen=True, slots=True)
class TableFormat:
    r"""What a file of a table is, whatever its name says, and how its text is written.

    Wherever a function takes the name of a format, it takes one of these too.

    Parameters
    ----------
    name : {"parquet", "arrow", "csv", "tsv", "jsonl"}, optional
        The format; by default, what the suffix and the first bytes of a file say.
    delimiter : str, optional
        The character between two fields of CSV. By default the comma; of a file whose header has no comma, that one of
        ``;``, ``|`` and tab which its first lines agree on, with a warning.
    decimal : {".", ","}
        The decimal point of numbers in CSV.
    encoding : str, optional
        The encoding of text, such as latin-1; by default UTF-8, or UTF-16 where the file begins with its mark.

    Raises
    ------
    InvalidInputError
        If a delimiter, a decimal point or an encoding is none.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from calibrant.tables import TableFormat, read_columns
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "scores.csv"
    ...     _ = file.write_bytes("größe;p\n7;0,25\n".encode("latin-1"))
    ...     read = read_columns(file, format=TableFormat(delimiter=";", decimal=",", encoding="latin-1"))
    ...     print(read.to_pylist())
    [{'größe': 7, 'p': 0.25}]
    """

    name: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None and self.name not in FORMATS:
            raise unknown_name("format", self.name, FORMATS)
        of = self.delimiter
        if of is not None and (len(of) != 1 or not of.isascii() or of.isalnum() or of in '"\r\n.-+\0'):
            raise InvalidInputError(
                f"--delimiter (delimiter=) {of!r} is not one character that can stand between fields. "
                "Pass ';', '|', ',' or a tab (--delimiter tab)."
            )
        if self.decimal not in (".", ","):
            raise InvalidInputError(f"--decimal (decimal=) {self.decimal!r} is neither '.' nor ','. Pass one of these.")
        if self.encoding is not None:
            object.__setattr__(self, "encoding", known_encoding(self.encoding))

    @classmethod
    def of(cls, given: FormatLike) -> TableFormat:
        """Return what a caller said: the name of a format, or all of this."""
        return given if isinstance(given, TableFormat) else cls(given)

    @property
    def of_text(self) -> dict[str, str]:
        """What is said of the text alone, by the names of the options that say it."""
        decimal = None if self.decimal == "." else self.decimal
        said = {"delimiter": self.delimiter, "decimal": decimal, "encoding": self.encoding}
        return {name: value for name, value in said.items() if value is not None}


FormatLike: TypeAlias = str | TableFormat | None


def known_encoding(name: str) -> str:
    """Return how Python calls an encoding of text.

    Raises
    ------
    InvalidInputError
        If there is none of that name.
    """
    try:
        "".encode(name)  # refuses what encodes no text, such as base64
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        raise InvalidInputError(
            f"--encoding (encoding=) {name!r} is no encoding that Python knows. Pass one such as latin-1, cp1252 or "
            "utf-16."
        ) from None
    return UTF8 if found == "utf-8-sig" else found
