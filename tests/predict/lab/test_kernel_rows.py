"""Raw rows survive the disk, and a file that is not ours is refused."""

from pathlib import Path

import numpy as np
import pytest

from penstock.core import InputError
from penstock.predict.kernels import ImageLayout, KernelCall, Precision
from penstock.predict.lab.records.kernel_rows import KernelRow, load_rows, save_rows
from penstock.predict.lab.records.measurements import read_measurements, read_power


def _row(seconds: float, **changes: object) -> KernelRow:
    call = KernelCall(
        family="conv", dims=(8, 3, 64, 224, 224, 7, 7, 2, 3, 1), precision=Precision.BF16, flops=1.5e9,
        read_bytes=2.5e6, written_bytes=3.5e6, layout=ImageLayout.CHANNELS_LAST, variant="bias",
    )  # fmt: skip
    return KernelRow(
        call=call,
        seconds=seconds,
        count=3,
        launches=2.0,
        kernel="sm90_conv",
        network=int(str(changes.get("network", 0))),
    )


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    rows = [_row(1e-4), _row(2e-4, network=5)]
    save_rows(tmp_path / "rows.npz", rows)
    found = load_rows(tmp_path / "rows.npz")
    assert found.calls == tuple(row.call for row in rows)
    assert np.allclose(found.seconds, [1e-4, 2e-4], rtol=1e-6)
    assert list(found.networks) == [0, 5]
    assert found.kernels == ("sm90_conv", "sm90_conv")
    assert len(found.where(found.networks == 5)) == 1


def test_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.npz").write_text("not an archive")
    with pytest.raises(InputError, match="cannot be read as measured rows"):
        load_rows(tmp_path / "rows.npz")
    np.savez(tmp_path / "other.npz", format=np.array(99))
    with pytest.raises(InputError, match="format 99"):
        load_rows(tmp_path / "other.npz")
    with pytest.raises(InputError, match="no measurements"):
        read_measurements(tmp_path)


def test_power_is_read_where_it_was_measured(tmp_path: Path) -> None:
    assert read_power(tmp_path) == ()
    (tmp_path / "power.json").write_text('[{"family": "gemm", "precision": "bf16", "watts": 690, "seconds": 0.5}]')
    (load,) = read_power(tmp_path)
    assert (load.family, load.watts * load.seconds) == ("gemm", 345)
    (tmp_path / "power.json").write_text('[{"family": "gemm"}]')
    with pytest.raises(InputError, match="measured power"):
        read_power(tmp_path)
