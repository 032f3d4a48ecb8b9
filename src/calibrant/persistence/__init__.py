"""Fitted calibrators in files and documents: versioned, checked as a whole before anything is built from them."""

from calibrant.persistence.calibrator_codec import decode_calibrator, encode_calibrator
from calibrant.persistence.documents import from_document, register_kind, to_document
from calibrant.persistence.export.onnx_graph import to_onnx
from calibrant.persistence.export.sql import to_sql
from calibrant.persistence.fields import Field
from calibrant.persistence.files import load, read_document, save
from calibrant.persistence.map_codec import decode_map, encode_map

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.persistence.plain import as_plain as as_plain

__all__ = [
    "Field",
    "decode_calibrator",
    "decode_map",
    "encode_calibrator",
    "encode_map",
    "from_document",
    "load",
    "read_document",
    "register_kind",
    "save",
    "to_document",
    "to_onnx",
    "to_sql",
]
