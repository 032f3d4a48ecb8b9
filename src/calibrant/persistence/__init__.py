"""Fitted calibrators in files and documents: versioned, checked as a whole before anything is built from them."""

from calibrant.persistence.documents import (
    fingerprint as fingerprint,
    from_document as from_document,
    to_document as to_document,
)
from calibrant.persistence.files import load as load, read_document as read_document, save as save
from calibrant.persistence.onnx_graph import to_onnx as to_onnx
from calibrant.persistence.sql import to_sql as to_sql
from calibrant.provenance import Provenance as Provenance

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.persistence.dialects import DIALECTS as DIALECTS, DialectName as DialectName
from calibrant.persistence.documents import check_fitted as check_fitted
from calibrant.persistence.files import (
    load_as as load_as,
    read_plain as read_plain,
    read_toml as read_toml,
    write_whole as write_whole,
)
from calibrant.persistence.onnx_graph import (
    FLOAT_TYPES as FLOAT_TYPES,
    OPSET as OPSET,
    OUTPUT as OUTPUT,
    FloatType as FloatType,
    OnnxBuilder as OnnxBuilder,
    make_model as make_model,
)
from calibrant.persistence.sql import (
    column_names as column_names,
    score_columns as score_columns,
    select_of as select_of,
)
from calibrant.persistence.sql_builder import SqlBuilder as SqlBuilder
from calibrant.persistence.sql_query import Expression as Expression
