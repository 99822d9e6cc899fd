"""``python -m penstock.diagnose.preflight``: this node, with nothing but Python, NumPy and, if there, PyTorch."""

import argparse
import json
import sys
from pathlib import Path

from penstock.core import InputError
from penstock.diagnose.preflight.node import NodeCheck
from penstock.diagnose.preflight.report import NodeReport, marked


def main() -> int:
    """1 if the node must not be used, 2 if the question makes no sense."""
    asked = _arguments()
    try:
        wanted = NodeCheck(
            device=asked.device, quick=asked.quick, compiled=asked.compile, folder=asked.folder,
            disk_bytes_s=asked.disk_rate * 1e6 if asked.disk_rate else None,
        )  # fmt: skip
        report = wanted.run(lambda words: print(words, file=sys.stderr, flush=True))
    except InputError as problem:
        print(problem, file=sys.stderr)
        return problem.exit_code
    _print(report, asked)
    return 0 if report.ok else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Check this node.")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--quick", action="store_true", help="contiguous inputs and short measurements only")
    parser.add_argument("--compile", action="store_true", help="operators under torch.compile as well")
    parser.add_argument("--folder", type=Path, default=Path(), help="where the disk is measured")
    parser.add_argument("--disk-rate", type=float, default=None, help="MB/s that the disk must write at least")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--marked", action="store_true", help="print JSON in one marked line, for a job's output")
    return parser.parse_args()


def _print(report: NodeReport, asked: argparse.Namespace) -> None:
    if asked.marked:
        print(marked(report), flush=True)
    elif asked.json:
        print(json.dumps(report.to_data(), indent=2))
    else:
        for check in report.checks:
            print(f"{check.status:<5} {check.line}")
        print(f"{'ok' if report.ok else 'not to be used'}: {report.node}, {report.seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
