"""What vendors publish about devices, so that a device nobody has profiled can still be talked about.

Dense rates (no sparsity), boost clocks. Sources are the vendors' product briefs and architecture white papers unless a
row says otherwise. Idle power is in no datasheet: those are typical readings with a context open and no work, a
starting point that a profile replaces.
"""

import re

from penstock.core import UnknownNameError
from penstock.predict.hardware.chip import Chip
from penstock.predict.hardware.precision import Precision

_GB = 1e9
_MB = 1e6
_TFLOPS = 1e12


def _device(
    name: str,
    *,
    tflops: dict[str, float],
    gb_s: float,
    l2_mb: float,
    units: int,
    mhz: float,
    memory_gb: float,
    link: str,
    tdp_w: float,
    idle_w: float,
    generation: float,
    process_nm: float,
    source: str,
) -> Chip:
    return Chip(
        name=name,
        peaks=tuple((Precision(precision), rate * _TFLOPS) for precision, rate in tflops.items()),
        bandwidth=gb_s * _GB,
        l2_bytes=l2_mb * _MB,
        units=units,
        clock_hz=mhz * 1e6,
        memory_bytes=memory_gb * _GB,
        link=link,
        tdp_w=tdp_w,
        idle_w=idle_w,
        generation=generation,
        process_nm=process_nm,
        source=source,
    )


_ALL = (
    _device(
        "h200", tflops={"fp32": 66.9, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1979}, gb_s=4800, l2_mb=50,
        units=132, mhz=1980, memory_gb=141, link="nvlink4", tdp_w=700, idle_w=75, generation=9.0, process_nm=4,
        source="NVIDIA H200 SXM datasheet",
    ),
    _device(
        "h100", tflops={"fp32": 66.9, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1979}, gb_s=3350, l2_mb=50,
        units=132, mhz=1980, memory_gb=80, link="nvlink4", tdp_w=700, idle_w=70, generation=9.0, process_nm=4,
        source="NVIDIA H100 SXM datasheet",
    ),
    _device(
        "h100-pcie", tflops={"fp32": 51.2, "tf32": 378, "bf16": 756, "fp16": 756, "fp8": 1513}, gb_s=2039, l2_mb=50,
        units=114, mhz=1755, memory_gb=80, link="pcie5", tdp_w=350, idle_w=50, generation=9.0, process_nm=4,
        source="NVIDIA H100 PCIe product brief (half its rates with sparsity)",
    ),
    _device(
        "b200", tflops={"fp32": 75, "tf32": 1125, "bf16": 2250, "fp16": 2250, "fp8": 4500}, gb_s=7700, l2_mb=126,
        units=148, mhz=1965, memory_gb=180, link="nvlink5", tdp_w=1000, idle_w=140, generation=10.0, process_nm=4,
        source="NVIDIA HGX B200 datasheet, per GPU (half its rates with sparsity)",
    ),
    _device(
        "l40s", tflops={"fp32": 91.6, "tf32": 183, "bf16": 362, "fp16": 362, "fp8": 733}, gb_s=864, l2_mb=96, units=142,
        mhz=2520, memory_gb=48, link="pcie4", tdp_w=350, idle_w=35, generation=8.9, process_nm=4,
        source="NVIDIA L40S datasheet (half its rates with sparsity)",
    ),
    _device(
        "rtx4090", tflops={"fp32": 82.6, "tf32": 82.6, "bf16": 165.2, "fp16": 165.2, "fp8": 660.6}, gb_s=1008, l2_mb=72,
        units=128, mhz=2520, memory_gb=24, link="pcie4", tdp_w=450, idle_w=25, generation=8.9, process_nm=4,
        source="NVIDIA Ada architecture white paper (half precision with fp32 accumulation)",
    ),
    _device(
        "rtx3090", tflops={"fp32": 35.6, "tf32": 35.6, "bf16": 71, "fp16": 71}, gb_s=936, l2_mb=6, units=82, mhz=1695,
        memory_gb=24, link="pcie4", tdp_w=350, idle_w=20, generation=8.6, process_nm=8,
        source="NVIDIA Ampere GA102 architecture white paper (half precision with fp32 accumulation)",
    ),
    _device(
        "mi300x", tflops={"fp32": 163.4, "tf32": 653.7, "bf16": 1307.4, "fp16": 1307.4, "fp8": 2614.9}, gb_s=5300,
        l2_mb=256, units=304, mhz=2100, memory_gb=192, link="infinity-fabric", tdp_w=750, idle_w=140, generation=0.0,
        process_nm=5,
        source="AMD Instinct MI300X datasheet; the last-level cache stands for the shared one",
    ),
    _device(
        "mi250", tflops={"fp32": 45.3, "bf16": 181, "fp16": 181}, gb_s=1638, l2_mb=8, units=104, mhz=1700, memory_gb=64,
        link="infinity-fabric", tdp_w=280, idle_w=45, generation=0.0, process_nm=6,
        source="AMD Instinct MI250 datasheet, one of its two dies as a program sees it; fp32 of its matrix units",
    ),
    _device(
        "mi210", tflops={"fp32": 45.3, "bf16": 181, "fp16": 181}, gb_s=1638, l2_mb=8, units=104, mhz=1700, memory_gb=64,
        link="infinity-fabric", tdp_w=300, idle_w=45, generation=0.0, process_nm=6,
        source="AMD Instinct MI210 datasheet; fp32 of its matrix units",
    ),
    _device(
        "mi100", tflops={"fp32": 46.1, "bf16": 92.3, "fp16": 184.6}, gb_s=1229, l2_mb=8, units=120, mhz=1502,
        memory_gb=32, link="infinity-fabric", tdp_w=300, idle_w=40, generation=0.0, process_nm=7,
        source="AMD Instinct MI100 datasheet; fp32 of its matrix units",
    ),
    _device(
        "a100-80gb", tflops={"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312}, gb_s=2039, l2_mb=40, units=108,
        mhz=1410, memory_gb=80, link="nvlink3", tdp_w=400, idle_w=55, generation=8.0, process_nm=7,
        source="NVIDIA A100 SXM 80 GB datasheet",
    ),
    _device(
        "a100-40gb", tflops={"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312}, gb_s=1555, l2_mb=40, units=108,
        mhz=1410, memory_gb=40, link="nvlink3", tdp_w=400, idle_w=50, generation=8.0, process_nm=7,
        source="NVIDIA A100 SXM 40 GB datasheet",
    ),
    _device(
        "a100-80gb-pcie", tflops={"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312}, gb_s=1935, l2_mb=40, units=108,
        mhz=1410, memory_gb=80, link="pcie4", tdp_w=300, idle_w=50, generation=8.0, process_nm=7,
        source="NVIDIA A100 PCIe 80 GB product brief",
    ),
    _device(
        "a100-40gb-pcie", tflops={"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312}, gb_s=1555, l2_mb=40, units=108,
        mhz=1410, memory_gb=40, link="pcie4", tdp_w=250, idle_w=40, generation=8.0, process_nm=7,
        source="NVIDIA A100 PCIe 40 GB product brief",
    ),
    _device(
        "v100", tflops={"fp32": 15.7, "fp16": 125}, gb_s=900, l2_mb=6, units=80, mhz=1530, memory_gb=32,
        link="nvlink2", tdp_w=300, idle_w=40, generation=7.0, process_nm=12,
        source="NVIDIA V100 SXM2 datasheet",
    ),
    _device(
        "v100-pcie", tflops={"fp32": 14.0, "fp16": 112}, gb_s=900, l2_mb=6, units=80, mhz=1370, memory_gb=32,
        link="pcie3", tdp_w=250, idle_w=30, generation=7.0, process_nm=12,
        source="NVIDIA V100 PCIe datasheet",
    ),
    _device(
        "t4", tflops={"fp32": 8.1, "fp16": 65}, gb_s=320, l2_mb=4, units=40, mhz=1590, memory_gb=16, link="pcie3",
        tdp_w=70, idle_w=10, generation=7.5, process_nm=12,
        source="NVIDIA T4 datasheet",
    ),
    _device(
        "l4", tflops={"fp32": 30.3, "tf32": 60, "bf16": 121, "fp16": 121, "fp8": 242}, gb_s=300, l2_mb=48, units=58,
        mhz=2040, memory_gb=24, link="pcie4", tdp_w=72, idle_w=12, generation=8.9, process_nm=4,
        source="NVIDIA L4 datasheet (half its rates with sparsity)",
    ),
    _device(
        "p100", tflops={"fp32": 9.3, "fp16": 18.7}, gb_s=732, l2_mb=4, units=56, mhz=1303, memory_gb=16, link="pcie3",
        tdp_w=250, idle_w=27, generation=6.0, process_nm=16,
        source="NVIDIA P100 PCIe datasheet",
    ),
    _device(
        "p4", tflops={"fp32": 5.5}, gb_s=192, l2_mb=2, units=20, mhz=1063, memory_gb=8, link="pcie3", tdp_w=75,
        idle_w=8, generation=6.1, process_nm=16,
        source="NVIDIA P4 datasheet",
    ),
    _device(
        "a40", tflops={"fp32": 37.4, "tf32": 74.8, "bf16": 149.7, "fp16": 149.7}, gb_s=696, l2_mb=6, units=84,
        mhz=1740, memory_gb=48, link="pcie4", tdp_w=300, idle_w=30, generation=8.6, process_nm=8,
        source="NVIDIA A40 datasheet",
    ),
    _device(
        "rtx6000", tflops={"fp32": 16.3, "fp16": 130.5}, gb_s=672, l2_mb=6, units=72, mhz=1770, memory_gb=24,
        link="pcie3", tdp_w=260, idle_w=20, generation=7.5, process_nm=12,
        source="NVIDIA Quadro RTX 6000 datasheet",
    ),
    _device(
        "ascend-910b", tflops={"fp32": 94, "bf16": 376, "fp16": 376}, gb_s=1600, l2_mb=192, units=24, mhz=1800,
        memory_gb=64, link="hccs", tdp_w=400, idle_w=90, generation=0.0, process_nm=7,
        source="press and benchmark reports; no public datasheet",
    ),
    _device(
        "cpu", tflops={"fp32": 0.1}, gb_s=20, l2_mb=32, units=2, mhz=2500, memory_gb=16, link="gloo", tdp_w=100,
        idle_w=20, generation=0.0, process_nm=7,
        source="a nominal two-core share of a server; `penstock profile device` measures the real one",
    ),
)  # fmt: skip

DEVICES: dict[str, Chip] = {device.name: device for device in _ALL}

_ALIASES = {
    "a100": "a100-80gb", "a100-80": "a100-80gb", "a100-40": "a100-40gb", "a100-sxm": "a100-80gb",
    "a100-sxm4": "a100-80gb", "a100-pcie": "a100-80gb-pcie", "h100-sxm": "h100", "h100-sxm5": "h100",
    "h100-80gb": "h100", "h200-sxm": "h200", "b200-sxm": "b200", "v100-sxm2": "v100", "v100-32gb": "v100",
    "v100-16gb": "v100",
    "4090": "rtx4090", "3090": "rtx3090", "mi300": "mi300x", "mi250x": "mi250", "910b": "ascend-910b",
    "ascend910b": "ascend-910b",
}  # fmt: skip


def device_named(name: str) -> Chip:
    """The device a person means: "h200", "A100-80GB", or what a driver calls it ("NVIDIA H200", "Tesla T4").

    >>> device_named("NVIDIA A100-SXM4-40GB").name
    'a100-40gb'
    """
    key = re.sub(r"rtx-(\d)", r"rtx\1", re.sub(r"[\s_]+", "-", name.strip().lower()))
    key = _ALIASES.get(key, key)
    if key in DEVICES:
        return DEVICES[key]
    return DEVICES[_by_driver_name(key) or _unknown(name)]


def _by_driver_name(key: str) -> str | None:
    """Driver names contain ours, with a vendor in front and a form factor inside: every part of ours must be there."""
    vendor, *parts = key.split("-")
    if vendor not in {"nvidia", "tesla", "quadro", "huawei", "amd"}:
        return None
    parts.append("40gb" if "40g" in key else "80gb")
    found = [name for name in DEVICES if set(name.split("-")) <= set(parts)]
    return max(found, key=len, default=None)


def _unknown(name: str) -> str:
    raise UnknownNameError.of(
        "device", name, DEVICES, "`penstock profile device` measures one that is not in this list"
    )
