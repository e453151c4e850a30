"""The files that vectors end up in, each streamed from chunks: .npy, .safetensors and .parquet.

The first two hold the matrix, and the units go beside it, one JSON object per row, into a file of its
name with `.units.jsonl` behind it. Parquet holds both, one row per unit, its vector in the column `vector`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from unmask.errors import UsageError
from unmask.lazy import require

Units = list[dict[str, Any]]
Rows = tuple[np.ndarray[Any, Any], Units]  # vectors, and the unit of each
SUFFIXES = (".npy", ".parquet", ".safetensors")


def check_format(out: Path) -> None:
    """Refuse a name that says no format, or one whose library is absent."""
    if out.suffix not in SUFFIXES:
        raise UsageError(f"expected a file that ends in {', '.join(SUFFIXES)}, got '{out}'")
    if out.suffix == ".parquet":
        require("writing .parquet instead of .npy", "embed", "pyarrow")


def units_file(out: Path) -> Path:
    """Return where the units of a .npy or .safetensors file stand."""
    return out.with_name(out.name + ".units.jsonl")


def write(out: Path, chunks: Iterable[Rows], rows: int, width: int, about: dict[str, str]) -> None:
    """Write chunks of `rows` vectors in all; `about` says what they are, where the format has a place."""
    writers = {".npy": _write_npy, ".safetensors": _write_safetensors, ".parquet": _write_parquet}
    writers[out.suffix](out, chunks, rows, width, about)


def _write_npy(out: Path, chunks: Iterable[Rows], rows: int, width: int, _about: dict[str, str]) -> None:
    header = io.BytesIO()
    described = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(header, described)
    _write_matrix(out, header.getvalue(), chunks)


def _write_safetensors(
    out: Path, chunks: Iterable[Rows], rows: int, width: int, about: dict[str, str]
) -> None:
    """The format is 8 bytes of the header's length, the header in JSON, and the numbers."""
    entry = {"dtype": "F32", "shape": [rows, width], "data_offsets": [0, 4 * rows * width]}
    header = json.dumps({"__metadata__": about, "vectors": entry}).encode()
    header += b" " * (-len(header) % 8)
    _write_matrix(out, len(header).to_bytes(8, "little") + header, chunks)


def _write_matrix(out: Path, header: bytes, chunks: Iterable[Rows]) -> None:
    """Write a header and the numbers into one file, and the units into another beside it."""
    with out.open("wb") as stream, units_file(out).open("w", encoding="utf-8") as beside:
        stream.write(header)
        for vectors, units in chunks:
            beside.writelines(json.dumps(unit, ensure_ascii=False) + "\n" for unit in units)
            stream.write(vectors.astype("<f4").tobytes())


def _write_parquet(out: Path, chunks: Iterable[Rows], _rows: int, width: int, about: dict[str, str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    try:
        for vectors, units in chunks:
            if not units:  # which would give no columns
                continue
            flat = pa.array(vectors.astype(np.float32).ravel())
            columns = {name: pa.array([unit[name] for unit in units]) for name in units[0]}
            columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, width)
            table = pa.table(columns).replace_schema_metadata(about)
            if writer is None:
                writer = pq.ParquetWriter(out, table.schema)
            writer.write_table(table)
        if writer is None:
            empty = {"vector": pa.FixedSizeListArray.from_arrays(pa.array([], pa.float32()), width)}
            writer = pq.ParquetWriter(out, pa.table(empty).schema)
    finally:
        if writer is not None:
            writer.close()
