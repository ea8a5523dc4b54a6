"""Parquet through pyarrow: typed columns, nested values as JSON texts."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from lmaudit.errors import InputError
from lmaudit.exports.cells import ESCAPED, as_json_text, needs_escape_in_utf8
from lmaudit.exports.material import Material
from lmaudit.exports.record import SCHEMA_VERSION
from lmaudit.exports.table import Type, columns, rows


def write_parquet(material: Material) -> dict[str, bytes]:
    """One table. Texts are verbatim, but for those that are no UTF-8: see `cells`; ``escaped`` lists them.

    Raises:
        InputError: pyarrow is not here.
    """
    pa, pq = _pyarrow()
    wanted = columns(material)
    schema = pa.schema(
        [*((name, _type(pa, kind)) for name, kind in wanted.items()), (ESCAPED, pa.list_(pa.string()))],
        metadata={"lmaudit_schema_version": str(SCHEMA_VERSION)},
    )
    table = pa.Table.from_pylist([_row(row, wanted) for row in rows(material)], schema=schema)
    stream = BytesIO()
    pq.write_table(table, stream, compression="zstd")
    return {"": stream.getvalue()}


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError("--format parquet needs pyarrow: pip install pyarrow") from error
    return pa, pq


def _type(pa: Any, kind: Type) -> Any:
    types = {"integer": pa.int64(), "number": pa.float64(), "truth": pa.bool_(), "integers": pa.list_(pa.int64())}
    return types.get(kind, pa.string())


def _row(row: dict[str, Any], wanted: dict[str, Type]) -> dict[str, Any]:
    texts = {name: row[name] for name, kind in wanted.items() if kind == "text" and isinstance(row[name], str)}
    escaped = {name: as_json_text(text) for name, text in texts.items() if needs_escape_in_utf8(text)}
    return {**row, **escaped, ESCAPED: list(escaped)}
