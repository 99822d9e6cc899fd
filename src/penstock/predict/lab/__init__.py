"""What a device really does: kernels and iterations measured, kept as raw rows."""

from penstock.predict.lab.rows import OpRow, OpRows, load_rows, save_rows

__all__ = ["OpRow", "OpRows", "load_rows", "save_rows"]
