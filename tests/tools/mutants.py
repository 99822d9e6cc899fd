"""``make mutants``: small random faults, one at a time, and whether a test notices each.

A seeded sample of expressions and statements is changed in a copy of ``src``, which a mount namespace puts in the place
of the original, so that every process of a test runs the copy; a PID namespace ends all of them together. First the
tests run once with a probe at every place of the sample: that tells which tests reach it. Each mutant then meets the
tests that reach its place, the fastest first, until one fails.
"""

import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "scheduler": ("scheduler", "policies", "simulate"),
    "policies": ("policies", "scheduler", "simulate"),
    "control/state": ("control",),
    "control/platform": ("control", "web/test_session.py", "cli/test_platform_verbs.py"),
    "spec": ("spec",),
    "backends/agent": ("backends",),
    "runtime": ("runtime",),
}
"""The tests of each package."""
MUTANT_S, CHOSEN_S, SLOW_S = 120.0, 60.0, 30
"""How long a mutant may take, the tests together that are chosen for it, and one test of them."""
VERDICTS = ("killed", "timed out", "survived", "unknown")

_COMPARED: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}  # fmt: skip
_COMPUTED: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
_EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
_PLAIN = (ast.Return, ast.Expr, ast.Assign, ast.AugAssign, ast.Raise)
_PROBE = """
import os
import signal

import pytest

_seen = set()


class Cut(BaseException):
    pass


def _cut(*_):
    raise Cut


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    signal.signal(signal.SIGALRM, _cut)
    signal.alarm(SLOW_S)
    try:
        return (yield)
    finally:
        signal.alarm(0)


def hit(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if (number, test) not in _seen:
        _seen.add((number, test))
        _write("hits", f"{number}\\t{test}")


def pytest_runtest_logreport(report):
    if not hasattr(report, "node"):  # a worker has written it
        _write("tests", f"{report.duration:.3f}\\t{report.outcome}\\t{report.nodeid}")


def _write(name, line):
    file = os.open(os.path.join(FOLDER, name), os.O_WRONLY | os.O_APPEND)
    os.write(file, f"{line}\\n".encode())
    os.close(file)
"""


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes ``start`` to ``end`` of a file become ``new``."""

    package: str
    file: Path
    line: int
    start: int
    end: int
    old: str
    new: str
    is_statement: bool
    entries: tuple[int, ...]
    """Of what is evaluated when the module is imported: where its functions can be seen to run, in its place."""

    def __str__(self) -> str:
        shorter = [text if len(text) <= 100 else f"{text[:97]}..." for text in (self.old, self.new)]
        return f"{self.file}:{self.line}: `{shorter[0]}` -> `{shorter[1]}`".replace("\n", " ")

    def changed(self, content: bytes) -> bytes:
        return content[: self.start] + self.new.encode() + content[self.end :]

    def probes(self, number: int) -> Iterator[tuple[int, str]]:
        """What to insert, and where, to learn which tests reach it."""
        hit = f'__import__("penstock._probe", fromlist=["hit"]).hit({number})'
        if self.entries or self.is_statement:
            yield from ((place, f"{hit}; ") for place in self.entries or (self.start,))
        else:
            yield from ((self.start, f"({hit} or ("), (self.end, "))"))


def mutants_of(package: str, file: Path, content: bytes) -> Iterator[Mutant]:
    """Every mutant of a module."""
    starts = [0]
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(content)
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    bodies = [(each.body[0].lineno, each.end_lineno or 0) for each in functions]
    for node, new in _changes(tree):
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        is_statement, text = isinstance(node, ast.stmt), ast.unparse(new)
        old, entries = content[start:end].decode(), tuple[int, ...]()
        if not any(first <= node.lineno <= last for first, last in bodies):
            ends = [each.body[-1] for each in functions if isinstance(each.body[-1], _PLAIN)]
            entries = tuple(starts[each.lineno - 1] + each.col_offset for each in ends)
        if text != old:
            new_text = text if is_statement else f"({text})"
            yield Mutant(package, file, node.lineno, start, end, old, new_text, is_statement, entries)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Nodes below one with what takes their place; annotations, texts, assertions and log lines are left alone."""
    if isinstance(node, ast.expr):
        for new in _other_expressions(node):
            yield node, new
    elif _is_removable(node):
        yield node, ast.Pass()  # type: ignore[misc]
    for name, field in ast.iter_fields(node):
        for child in field if isinstance(field, list) else [field]:
            if not isinstance(child, ast.AST) or name in ("annotation", "returns", "decorator_list"):
                continue
            if isinstance(child, ast.JoinedStr | ast.Assert | ast.pattern):
                continue
            if isinstance(child, ast.Expr | ast.If) and ast.unparse(child).startswith(("_log.", "if TYPE_CHECKING")):
                continue
            yield from _changes(child)
            if name == "test" and isinstance(child, ast.expr) and not isinstance(child, ast.Compare | ast.UnaryOp):
                yield child, ast.UnaryOp(ast.Not(), child)


def _other_expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, [operator], right):
            for other in _COMPARED[type(operator)]:
                yield ast.Compare(left, [other()], right)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.And() if isinstance(operator, ast.Or) else ast.Or(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, operator, right) if type(operator) in _COMPUTED and not _is_text(left, right):
            yield ast.BinOp(left, _COMPUTED[type(operator)](), right)
        case ast.Constant(value) if type(value) in (int, float):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in _EXTREMES:
            yield ast.Call(ast.Name(_EXTREMES[name]), arguments, keywords)
        case ast.Call(ast.Attribute(owner, name), arguments, keywords) if name in _EXTREMES:
            yield ast.Call(ast.Attribute(owner, _EXTREMES[name]), arguments, keywords)


def _is_text(*nodes: ast.expr) -> bool:
    return any(isinstance(each, ast.JoinedStr) or isinstance(getattr(each, "value", None), str) for each in nodes)


def _is_removable(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return is_call or isinstance(node, ast.AugAssign | ast.Raise)


def sample(packages: Sequence[str], count: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """Mutants of as many lines, every line as likely as any other; none overlaps another."""
    by_line: dict[tuple[Path, int], list[Mutant]] = defaultdict(list)
    for package in packages:
        folder = root / "src/penstock" / package
        for path in sorted(each for each in folder.rglob("*.py") if "testing" not in each.parts):
            for each in mutants_of(package, path.relative_to(root), path.read_bytes()):
                by_line[each.file, each.line].append(each)
    rng, chosen = random.Random(seed), list[Mutant]()
    lines = sorted(by_line)
    rng.shuffle(lines)
    for line in lines:
        one = rng.choice(by_line[line])
        if not any(one.file == each.file and one.start < each.end and each.start < one.end for each in chosen):
            chosen.append(one)
        if len(chosen) == count:
            break
    return chosen


@dataclass
class Coverage:
    """What the tests of unchanged code told: which mutants they reach, how long those take that pass, which are too
    slow to be of use, and whether all ran."""

    reached: Mapping[int, set[str]]
    seconds: Mapping[str, float]
    slow: AbstractSet[str]
    is_whole: bool

    def chosen(self, number: int) -> tuple[list[str], bool]:
        """Passing tests that reach a mutant, the fastest first, and whether these are all there are."""
        found = sorted((each for each in self.reached[number] if each in self.seconds), key=self.seconds.__getitem__)
        spent, tests = 0.0, []
        for test in found:
            spent += self.seconds[test]
            if not tests or spent <= CHOSEN_S:
                tests.append(test)
        is_all = len(tests) == len(found) and self.slow.isdisjoint(self.reached[number])
        return tests, self.is_whole and is_all and (bool(tests) or "" not in self.reached[number])


class Laboratory:
    """A copy of the source that stands in the place of the original for the processes of one command."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.copy = folder, folder / "src"
        folder.chmod(0o755)
        for name in ("hits", "tests"):
            (folder / name).touch()
            (folder / name).chmod(0o666)
        (folder / "t").mkdir()
        (folder / "t").chmod(0o1777)
        shutil.copytree(ROOT / "src", self.copy, ignore=shutil.ignore_patterns("__pycache__"))
        (self.copy / "penstock/_probe.py").write_text(f"FOLDER, SLOW_S = {str(folder)!r}, {SLOW_S}\n{_PROBE}")

    def write(self, file: Path, content: bytes) -> None:
        (self.folder / file).write_bytes(content)

    def pytest(self, *words: str, within_s: float) -> int | None:
        """How pytest ended; None if it was still running after that time."""
        inside = 'mount --bind "$1" "$2" && shift 2 && "$@"; exit $?'  # the shell stays, and buries orphans
        run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
        command = [*NAMESPACE, "sh", "-c", inside, "sh", str(self.copy), str(ROOT / "src"), *run]
        environment = {**os.environ, "PENSTOCK_JIT": "0", "TMPDIR": str(self.folder / "t")}
        with (
            (self.folder / "output").open("wb") as output,
            subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            ) as running,
        ):
            try:
                return running.wait(within_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                running.kill()

    def coverage(self, mutants: Sequence[Mutant], tests: Sequence[str], within_s: float) -> Coverage:
        """Run the tests once over probes."""
        for file in {each.file for each in mutants}:
            content = (ROOT / file).read_bytes()
            probes = [
                probe for number, each in enumerate(mutants) if each.file == file for probe in each.probes(number)
            ]
            for place, probe in sorted(probes, key=lambda one: (one[0], one[1][0] == "("), reverse=True):
                content = content[:place] + probe.encode() + content[place:]
            self.write(file, content)
        ended = self.pytest("-p", "penstock._probe", "-n", WORKERS, "--dist", "worksteal", *tests, within_s=within_s)
        for file in {each.file for each in mutants}:
            self.write(file, (ROOT / file).read_bytes())
        reached, seconds, failed = defaultdict[int, set[str]](set), Counter[str](), set[str]()
        for line in (self.folder / "hits").read_text().splitlines():
            number, _, test = line.partition("\t")
            reached[int(number)].add(test)
        for line in (self.folder / "tests").read_text().splitlines():
            took, outcome, test = line.split("\t", 2)
            seconds[test] += float(took)
            if outcome != "passed":
                failed.add(test)
        passed = {test: took for test, took in seconds.items() if test not in failed}
        return Coverage(reached, passed, {test for test in failed if seconds[test] >= SLOW_S}, ended in (0, 1))

    def verdict(self, mutant: Mutant, tests: Sequence[str], is_all: bool) -> str:
        original = (ROOT / mutant.file).read_bytes()
        self.write(mutant.file, mutant.changed(original))
        (self.folder / "chosen").write_text("\n".join(tests))
        ended = self.pytest("-x", f"@{self.folder / 'chosen'}", within_s=MUTANT_S) if tests else 0
        self.write(mutant.file, original)
        if ended is None:
            return "timed out"
        return "killed" if ended else "survived" if is_all else "unknown"


NAMESPACE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
WORKERS = os.environ.get("WORKERS", str(os.cpu_count()))


def main() -> int:
    packages = os.environ.get("PACKAGES", " ".join(FOLDERS)).replace(",", " ").split()
    count, minutes = int(os.environ.get("COUNT", "100")), float(os.environ.get("MINUTES", "120"))
    seed = int(os.environ.get("SEED") or random.randrange(10**6))
    if unknown := set(packages) - set(FOLDERS):
        print(f"PACKAGES={' '.join(sorted(unknown))} is not known. Allowed: {', '.join(FOLDERS)}")
        return 2
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        print(
            f"mutants may end any process they reach, and run in namespaces only: {' '.join(NAMESPACE)} is not allowed"
        )
        return 2
    os.nice(10)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the copy is removed
    end = time.monotonic() + minutes * 60
    drawn = sample(packages, count, seed)
    tests = dict.fromkeys(f"tests/{folder}" for package in packages for folder in FOLDERS[package])
    print(f"{len(drawn)} mutants of SEED={seed}; the tests run once to find out what they reach", flush=True)
    found: dict[str, list[Mutant]] = {verdict: [] for verdict in VERDICTS}
    with TemporaryDirectory(prefix="mutants-") as folder:
        laboratory = Laboratory(Path(folder))
        coverage = laboratory.coverage(drawn, list(tests), minutes * 30)
        if not coverage.seconds:
            print("no test passes, so nothing could be learned; run make unit")
            return 2
        print(f"{len(coverage.seconds)} tests pass; {'all' if coverage.is_whole else 'not all'} have run", flush=True)
        for number, mutant in enumerate(drawn):
            chosen, is_all = coverage.chosen(number)
            verdict = laboratory.verdict(mutant, chosen, is_all) if time.monotonic() < end else "unknown"
            found[verdict].append(mutant)
            print(f"{verdict:>9} ({len(chosen)} tests) {mutant}", flush=True)
    _report(packages, found)
    return 0


def _report(packages: Sequence[str], found: Mapping[str, Sequence[Mutant]]) -> None:
    """The table; what survived may also be equivalent to the original, which only reading tells."""
    print("\npackage           " + "".join(f"{verdict:>11}" for verdict in VERDICTS) + "   killed of known")
    for name in (*packages, "all"):
        counts = [sum(name in (each.package, "all") for each in found[verdict]) for verdict in VERDICTS]
        share = f"{(counts[0] + counts[1]) / known:17.0%}" if (known := sum(counts[:3])) else " " * 17
        print(f"{name:18}" + "".join(f"{each:11}" for each in counts) + share)
    for verdict in VERDICTS[1:]:
        for each in found[verdict]:
            print(f"{verdict}: {each}")


if __name__ == "__main__":
    sys.exit(main())
