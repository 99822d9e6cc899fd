"""Of a failed run's last words, those that its author can act on."""

from penstock.web.failure_excerpt import failure_excerpt
from penstock.web.log_levels import Level, levelled, rank_of

TRACEBACK = """[1] Traceback (most recent call last):
[0] Traceback (most recent call last):
[0]   File "/work/train.py", line 9, in <module>
[0]     main()
[1]   File "/work/train.py", line 9, in <module>
[0]   File "/venv/lib/python3.12/site-packages/torch/nn/module.py", line 1518, in _call
[0]     return forward(*args)
[0]   File "/work/model.py", line 31, in forward
[0]     raise ValueError("4 channels")
[0]     ^^^^^^^^^^^^
[0] ValueError: 4 channels""".splitlines()


def test_the_authors_frames_and_the_error_of_one_worker_are_left() -> None:
    assert failure_excerpt(["[0] step 7", *TRACEBACK]) == [
        '  File "/work/train.py", line 9, in <module>',
        "    main()",
        '  File "/work/model.py", line 31, in forward',
        '    raise ValueError("4 channels")',
        "    ^^^^^^^^^^^^",
        "ValueError: 4 channels",
    ]


def test_a_traceback_without_frames_of_the_author_keeps_its_last_one() -> None:
    lines = [TRACEBACK[1], *TRACEBACK[5:7], TRACEBACK[-1]]
    assert [line.strip() for line in failure_excerpt(lines)[1:]] == ["return forward(*args)", "ValueError: 4 channels"]


def test_without_a_traceback_its_last_words_count() -> None:
    assert failure_excerpt(["[0] step 7", "", "[0] bash: trian: command not found"]) == [
        "step 7", "bash: trian: command not found",
    ]  # fmt: skip
    assert failure_excerpt([]) == []


def test_the_last_of_several_tracebacks_is_meant() -> None:
    chained = [
        "Traceback (most recent call last):", '  File "a.py", line 1, in f', "KeyError: 1", "",
        "During handling of the above exception, another exception occurred:", "",
        "Traceback (most recent call last):", '  File "b.py", line 2, in g', "RuntimeError: 2",
    ]  # fmt: skip
    assert failure_excerpt(chained) == ['  File "b.py", line 2, in g', "RuntimeError: 2"]


def test_lines_have_levels_and_a_traceback_is_one_error() -> None:
    lines = [
        "[0] INFO fine", "[1] WARNING hot", "[0] Traceback (most recent call last):", "[1]   indented, but no error",
        '[0]   File "a.py", line 1', "[0] KeyError: 1", "[0] a.py:3: UserWarning: old", "no error here",
    ]  # fmt: skip
    assert [level for level, _ in levelled(lines)] == [
        Level.USUAL, Level.WARNING, Level.ERROR, Level.USUAL, Level.ERROR, Level.ERROR, Level.WARNING, Level.USUAL,
    ]  # fmt: skip
    assert [rank_of(line) for line in lines] == ["0", "1", "0", "1", "0", "0", "0", ""]


def test_marks_that_torch_puts_before_tracebacks_are_no_part_of_them() -> None:
    marked = [line.replace("[0] ", "[0] [rank0]: ", 1) for line in TRACEBACK]
    assert failure_excerpt(marked) == failure_excerpt(TRACEBACK)
    alone = [line.replace("[0] ", "[rank0]: ", 1) for line in TRACEBACK if line.startswith("[0]")]
    assert failure_excerpt(alone) == failure_excerpt(TRACEBACK)
