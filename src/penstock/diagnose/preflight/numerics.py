"""Does the device compute what it should? The operator suite as checks of a node."""

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence

from penstock.diagnose.preflight.report import Check, Status

_FOR_REPAIR = "Do not train here: update or reinstall PyTorch and the driver; if it stays, the device is broken"


def operator_checks(device: str, *, quick: bool, compiled: bool) -> Iterator[tuple[Check, str]]:
    """One check per operator, and the checksum of everything that came back the same twice."""
    from penstock.diagnose.operators.suite.running import Layout, run_suite

    compiler = _why_not_compiled(device) if compiled else ""
    layouts: Sequence[Layout] = (Layout.CONTIGUOUS,) if quick else tuple(Layout)
    dtypes = ("float32", "bfloat16", "float16") if device == "cpu" else ("float32", "tf32", "bfloat16", "float16")
    result = run_suite(device, dtypes=dtypes, layouts=layouts, compiled=compiled and not compiler)
    by_operator = defaultdict(list)
    for each in result.results:
        by_operator[each.operator].append(each)
    for operator, results in by_operator.items():
        wrong = [each for each in results if each.wrong]
        worst = max(results, key=lambda each: each.error)
        figure = wrong[0].line if wrong else f"{worst.error:.2f} of what is allowed in {len(results)} cases"
        yield Check(
            name=f"operator {operator}", status=Status.FAIL if wrong else Status.PASS, figure=figure,
            expected="float64 references", next=_FOR_REPAIR if wrong else "",
        ), result.checksum  # fmt: skip
    if compiler:
        yield Check(name="torch.compile", status=Status.SKIP, figure=compiler), result.checksum


def update_checks(device: str) -> Iterator[Check]:
    from penstock.diagnose.operators.suite.updates import update_errors

    found = dict(update_errors(device))
    wrong = {name: error for name, error in found.items() if error > 1}
    for name, error in wrong.items():
        yield Check(name=f"update {name}", status=Status.FAIL, figure=f"off by {error:.3g} times what is allowed",
                    expected="float64 references", next=_FOR_REPAIR)  # fmt: skip
    if not wrong:
        yield Check(name="updates", status=Status.PASS, expected="float64 references",
                    figure=f"{max(found.values()):.2f} of what is allowed in {len(found)} cases")  # fmt: skip


def _why_not_compiled(device: str) -> str:
    if device == "cpu" and not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        return "needs a C++ compiler, and there is none"
    return ""
