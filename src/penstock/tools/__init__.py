"""Tools without words of their own: what several rooms need and no room is about."""

from typing import TYPE_CHECKING

from penstock.tools.doors import lazy_door
from penstock.tools.files import (
    atomic_directory,
    atomic_file,
    create_private,
    is_disk_full,
    open_regular,
    partial_path,
    read_regular,
    remove_tree,
    sync_directory,
    sync_file,
    write_atomically,
)
from penstock.tools.jit import compiled, compiled_in_place, has_compiler, interpret_first

if TYPE_CHECKING:
    from penstock.tools.bounded_json import parse_json
    from penstock.tools.event_files import Scalar, read_scalars, scalar_record, version_record
    from penstock.tools.flat_mapping import flat_texts
    from penstock.tools.least_squares import nonnegative_least_squares
    from penstock.tools.locks import file_lock
    from penstock.tools.nvml import GpuMemory, Nvml, NvmlDevice
    from penstock.tools.parents import die_with_parent
    from penstock.tools.protobuf_wire import bytes_field, varint_field
    from penstock.tools.steady_clock import SteadyClock, boot_id
    from penstock.tools.streamed_data import json_pieces, settled
    from penstock.tools.unix_users import (
        UnixUser,
        acting_as,
        closed_to,
        give_up_privileges,
        may_execute,
        process_options,
    )

__all__ = [
    "GpuMemory",
    "Nvml",
    "NvmlDevice",
    "Scalar",
    "SteadyClock",
    "UnixUser",
    "acting_as",
    "atomic_directory",
    "atomic_file",
    "boot_id",
    "bytes_field",
    "closed_to",
    "compiled",
    "compiled_in_place",
    "create_private",
    "die_with_parent",
    "file_lock",
    "flat_texts",
    "give_up_privileges",
    "has_compiler",
    "interpret_first",
    "is_disk_full",
    "json_pieces",
    "lazy_door",
    "may_execute",
    "nonnegative_least_squares",
    "open_regular",
    "parse_json",
    "partial_path",
    "process_options",
    "read_regular",
    "read_scalars",
    "remove_tree",
    "scalar_record",
    "settled",
    "sync_directory",
    "sync_file",
    "varint_field",
    "version_record",
    "write_atomically",
]

__getattr__ = lazy_door(__name__)
