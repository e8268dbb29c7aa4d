"""Row identity: which rows are the same, and one order of all rows that their contents alone decide.

Bitwise, unlike equality in SQL: 0.0 and -0.0 are two rows; NULL equals NULL; all NaN are one value, and so are
maps with the same entries in another order. NaN bits and map entries are brought to one form first, so that
the same multiset of rows always gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.delivery import WEIGHT
from headrace.state.sorting import lexical_order

Array: TypeAlias = npt.NDArray[Any]
_SIGN = np.uint64(1 << 63)
# Width of a float -> its bits of +infinity (a greater magnitude is a NaN) and of the one NaN that is kept.
_NAN = {16: (0x7C00, 0x7E00), 32: (0x7F800000, 0x7FC00000), 64: (0x7FF0000000000000, 0x7FF8000000000000)}


def row_codes(columns: Sequence[pa.ChunkedArray | pa.Array]) -> npt.NDArray[np.int64]:
    """One int64 code a row, dense from 0: equal rows, equal codes; the order of codes is that of the contents.

    Columns have equal lengths; they are compared from first to last, NULL first, numbers by value (-0.0 before
    0.0, NaN last), text and binary by bytes, lists and structs part by part. Raises ``TypeError`` for a
    type without identity here (unions, views, intervals of months, lists of fixed size).
    """
    order, new = _sorted([canonical(column) for column in columns])
    codes = np.empty(len(order), np.int64)
    codes[order] = np.cumsum(new) - 1
    return codes


def consolidate(table: pa.Table, weight: str = WEIGHT, by: Sequence[str] | None = None) -> pa.Table:
    """Equal rows merged, their weights added, weights of 0 dropped, rows in the order of ``row_codes``.

    ``by`` (default: all columns but ``weight``, in order) says which columns make a row and which of them come first
    in the order; other columns are left out. Columns keep the table's order and types (a dictionary comes out
    plain). Raises ``OverflowError`` when a weight leaves int64. Text of one column must stay below 2 GiB.
    """
    names = [name for name in table.column_names if name != weight] if by is None else list(by)
    kept = [name for name in table.column_names if name == weight or name in names]
    columns = {name: canonical(table.column(name)) for name in names}
    weights = _values(_plain(table.column(weight)).cast(pa.int64()))
    if columns and len(weights):
        order, new = _sorted(list(columns.values()))
    else:  # a table without columns holds one kind of row
        order, new = np.arange(len(weights)), np.arange(len(weights)) == 0
    starts = np.flatnonzero(new)
    sums = _sums(weights[order], starts)
    left = sums != 0
    rows = pa.array(order[starts[left]])
    arrays = [
        pa.array(sums[left]) if name == weight else pc.take(columns[name], rows, boundscheck=False) for name in kept
    ]
    fields = [table.schema.field(name).with_type(array.type) for name, array in zip(kept, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, table.schema.metadata))


def difference(a: pa.Table, b: pa.Table, weight: str = WEIGHT) -> pa.Table:
    """``consolidate(a - b)``: what must be added to ``b`` to get ``a``. ``b`` has the columns of ``a``, in any order.

    Raises ``ValueError`` when their columns differ.
    """
    if sorted(a.column_names) != sorted(b.column_names):
        raise ValueError(f"columns differ: {a.column_names} and {b.column_names}")
    minus = pc.negate_checked(b.column(weight).cast(pa.int64()))
    other = b.set_column(b.column_names.index(weight), weight, minus).select(a.column_names)
    if [field.type for field in a.schema] != [field.type for field in other.schema]:
        raise ValueError(f"types differ: {a.schema.types} and {other.schema.types}")
    return consolidate(pa.concat_tables([a, pa.Table.from_arrays(other.columns, schema=a.schema)]), weight)


def canonical(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array, of plain type, in which equal values have equal bytes."""
    return _settled(_plain(column))


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array: without a copy where it is one, which ``combine_chunks`` would make."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = one_array(column)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _varies(arrow: pa.DataType) -> bool:
    """Whether equal values of the type may be stored as different bytes."""
    if pa.types.is_struct(arrow) or pa.types.is_floating(arrow) or pa.types.is_map(arrow):
        return True
    return bool(_is_list(arrow) and _varies(arrow.value_type))


def _settled(array: pa.Array) -> pa.Array:
    """The array itself when its type has but one form of a value, else an array in canonical form."""
    arrow = array.type
    if len(array) == 0 or not _varies(arrow):
        return array
    if pa.types.is_floating(arrow):
        return _one_nan(array)
    if pa.types.is_struct(arrow):
        children = [_settled(child) for child in array.flatten()]  # what lies under a NULL struct becomes NULL
        return pa.Array.from_buffers(arrow, len(array), [bitmap(array)], children=children)
    offsets, entries = _entries(array)
    entries = _settled(entries)
    if pa.types.is_map(arrow) and len(entries):
        owner = np.repeat(np.arange(len(array)), np.diff(offsets))
        order = np.lexsort((row_codes([entries.field(0)]), owner))
        entries = entries.take(pa.array(order))
    width = np.int64 if pa.types.is_large_list(arrow) else np.int32
    buffers = [bitmap(array), pa.py_buffer(offsets.astype(width))]
    return pa.Array.from_buffers(arrow, len(array), buffers, children=[entries])


def _one_nan(array: pa.Array) -> pa.Array:
    bits = _raw(array)
    infinity, quiet = _NAN[array.type.bit_width]
    nan = (bits & ((1 << (array.type.bit_width - 1)) - 1)) > infinity
    if not nan.any():
        return array
    one = np.where(nan, bits.dtype.type(quiet), bits)
    return pa.Array.from_buffers(array.type, len(array), [bitmap(array), pa.py_buffer(one)])


def _is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow))


def _entries(array: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Offsets from 0 and the elements between them, of a list or map; a NULL list has none."""
    if pa.types.is_map(array.type):
        entry = pa.struct([array.type.key_field, array.type.item_field])
        array = array.view(pa.list_(pa.field("entries", entry, nullable=False)))
    offsets = np.zeros(len(array) + 1, np.int64)
    lengths = pc.list_value_length(array)
    np.cumsum(_values(lengths.fill_null(0) if lengths.null_count else lengths), out=offsets[1:])
    return offsets, array.flatten()


def validity(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which slots hold a value; None for all of them."""
    if array.null_count == 0:
        return None
    return _bits(array.buffers()[0], array.offset, len(array))


def bitmap(array: pa.Array) -> pa.Buffer | None:
    valid = validity(array)
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _bits(buffer: pa.Buffer, offset: int, count: int) -> npt.NDArray[np.bool_]:
    unpacked = np.unpackbits(np.frombuffer(buffer, np.uint8), count=offset + count, bitorder="little")
    return unpacked[offset:].view(np.bool_)


def _raw(array: pa.Array) -> Array:
    """The bits of a fixed-width array as unsigned integers of its width; what is under NULL is undefined."""
    kind = np.dtype(f"u{array.type.bit_width // 8}")
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def _values(array: pa.Array) -> npt.NDArray[np.int64]:
    """The values of an integer array without NULL; ``ValueError`` with one."""
    if array.null_count:
        raise ValueError("a weight is NULL")
    if len(array) == 0:
        return np.empty(0, np.int64)
    return _raw(array).view(f"i{array.type.bit_width // 8}").astype(np.int64, copy=False)


def _keys(array: pa.Array) -> list[Array]:
    """int64 arrays whose lexicographic order is that of a canonical array; values under NULL are all the same."""
    arrow = array.type
    if pa.types.is_null(arrow):
        return []
    valid = validity(array)
    if pa.types.is_struct(arrow):
        keys = [key for child in array.flatten() for key in _keys(child)]
    elif pa.types.is_boolean(arrow):
        keys = [_bits(array.buffers()[1], array.offset, len(array)).astype(np.int64)]
    elif pa.types.is_decimal(arrow):
        keys = _decimal_keys(array)
    elif pa.types.is_floating(arrow):
        bits = _raw(array).view(f"i{arrow.bit_width // 8}").astype(np.int64)
        keys = [bits ^ ((bits >> 63) & ((1 << (arrow.bit_width - 1)) - 1))]
    elif pa.types.is_unsigned_integer(arrow):
        bits = _raw(array).astype(np.uint64)
        keys = [(bits ^ _SIGN).view(np.int64) if arrow.bit_width == 64 else bits.view(np.int64)]
    elif pa.types.is_integer(arrow) or (pa.types.is_temporal(arrow) and not pa.types.is_interval(arrow)):
        keys = [_raw(array).view(f"i{arrow.bit_width // 8}").astype(np.int64, copy=False)]
    elif _is_list(arrow) or pa.types.is_map(arrow):
        keys = [_list_ranks(array)]
    elif pa.types.is_fixed_size_binary(arrow) or arrow in _TEXT:
        keys = [_text_ranks(array)]
    else:
        raise TypeError(f"rows of type {arrow} cannot be compared")
    if valid is None:
        return keys
    return [valid.astype(np.int64), *(_filled(key, valid) for key in keys)]


_TEXT = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def _filled(key: Array, valid: npt.NDArray[np.bool_]) -> Array:
    """Undefined values replaced by the least defined one, which widens no range."""
    return np.where(valid, key, key[valid].min() if valid.any() else 0)


def _decimal_keys(array: pa.Array) -> list[Array]:
    width = array.type.bit_width
    if width <= 64:
        return [_raw(array).view(f"i{width // 8}").astype(np.int64, copy=False)]
    count = width // 64
    words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, count)[array.offset : array.offset + len(array)]
    keys = [words[:, count - 1]]
    for place in range(count - 2, -1, -1):
        word = words[:, place]
        if len(keys) == 1 and np.array_equal(keys[0], word >> 63):
            keys = [word]  # the word above only repeats the sign
        else:
            keys.append((word.view(np.uint64) ^ _SIGN).view(np.int64))
    return keys


def _text_ranks(array: pa.Array) -> Array:
    """Ranks among the distinct values: only these are sorted, by their bytes."""
    encoded = array.dictionary_encode()
    if len(encoded.dictionary) == 0:
        return np.zeros(len(array), np.int64)
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    indices = encoded.indices
    return ranks[_raw(indices.fill_null(0) if indices.null_count else indices)]


def _list_ranks(array: pa.Array) -> Array:
    """Lists become byte strings of their elements' codes, four bytes each, the high byte first: same order."""
    offsets, elements = _entries(array)
    if len(elements) == 0:
        return np.zeros(len(array), np.int64)
    order, new = _sorted([elements])
    codes = np.empty(len(order), ">u4")
    codes[order] = np.cumsum(new) - 1
    buffers = [None, pa.py_buffer(offsets * 4), pa.py_buffer(codes)]
    return _text_ranks(pa.Array.from_buffers(pa.large_binary(), len(array), buffers))


def _sorted(columns: Sequence[pa.Array]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The order of the rows of canonical columns, and where in that order another row begins."""
    if not columns:
        raise ValueError("rows need at least one column")
    count = len(columns[0])
    new = np.zeros(count, bool)
    if count == 0:
        return np.empty(0, np.int64), new
    new[0] = True
    words = _packed([key for column in columns for key in _keys(column)])
    if not words:
        return np.arange(count), new
    order = lexical_order(words)
    for word in words:
        placed = word[order]
        new[1:] |= placed[1:] != placed[:-1]
    return order, new


def _packed(keys: Sequence[Array]) -> list[npt.NDArray[np.uint64]]:
    """The keys in as few 64-bit words as their ranges allow, in the same lexicographic order."""
    words: list[npt.NDArray[np.uint64]] = []
    room = 0
    for key in keys:
        low = key.min()
        bits = (int(key.max()) - int(low)).bit_length()
        if bits == 0:
            continue
        above_low = (key - low).view(np.uint64)  # wraps where the range exceeds int64: right as unsigned
        if bits <= room:
            words[-1] = (words[-1] << np.uint64(bits)) | above_low
            room -= bits
        else:
            words.append(above_low)
            room = 64 - bits
    return words


def _sums(weights: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    if len(weights) == 0:
        return weights
    largest = max(-int(weights.min()), int(weights.max()))
    if largest * len(weights) < 1 << 63:
        return np.add.reduceat(weights, starts)
    low = np.add.reduceat(weights & 0xFFFFFFFF, starts)
    high = np.add.reduceat(weights >> 32, starts) + (low >> 32)
    if high.min() < -(1 << 31) or high.max() >= 1 << 31:
        raise OverflowError("the weights of a row add up to more than int64 holds")
    exact: npt.NDArray[np.int64] = (high << 32) | (low & 0xFFFFFFFF)
    return exact
