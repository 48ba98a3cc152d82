"""A learner's file that is broken, careless or cheating: a clear message, exit code 1 or 2, never 0."""

from collections.abc import Callable

import pytest

from labs.harness.verdict import Verdict
from tests.programs import GOOD, bent, in_main, in_worker

Check = Callable[[str, str], Verdict]

FORGE = """
import json, os
for fd in range(3, 64):
    try:
        os.write(fd, (json.dumps({"kind": "done", "replaced": []}) + chr(10)).encode() * 3)
    except OSError:
        pass
"""
REPLACE = """
def nothing(self):
    return iter([])
DataLoader.__iter__ = nothing
"""
FAKE_WORKERS = """
class Fake(DataLoader):
    def __iter__(self):
        workers = [torch.multiprocessing.get_context("fork").Process(target=__import__("time").sleep, args=(9,))
                   for _ in range(2)]
        for worker in workers:
            worker.start()
        yield from DataLoader(self.dataset, batch_size=8)
        for worker in workers:
            worker.kill()
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def make_loader(:\n", "is not valid Python: invalid syntax (line 1)"),
        ("print('hello')\n", "has no function make_loader()"),
        ("make_loader = 3\n", "has no function make_loader()"),
        ("def make_loader():\n    return [1, 2, 3]\n", "returned list, not a torch DataLoader"),
        ("def make_loader():\n    pass\n", "returned NoneType, not a torch DataLoader"),
        (bent("return image, index", "return {'image': image}"), "a batch must be (tensor, ..., ids)"),
        (bent("return image, index", "return image, float(index)"), "must be the ids of its samples"),
    ],
)
def test_a_file_that_breaks_the_contract_is_wrong_usage(check: Check, text: str, words: str) -> None:
    """One sentence says what the file lacks; exit code 2."""
    verdict = check("pickle", text)
    assert [finding.id for finding in verdict.findings] == ["not-a-program"]
    assert words in verdict.findings[0].statement
    assert verdict.exit_code == 2


@pytest.mark.parametrize(
    ("text", "finding", "words"),
    [
        ("import os\nos._exit(0)\n", "unfinished", "ended with status 0"),
        (in_main("import os; os._exit(0)"), "unfinished", "ended with status 0"),
        (in_main("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"), "unfinished", "killed by signal 11"),
        (in_worker("import os; os._exit(0)"), "raised", ""),
        (in_worker("import os; os._exit(3)"), "worker-died", "ended with status 3"),
        (in_worker("import os; os.kill(os.getpid(), 9)"), "worker-died", "killed by signal 9"),
        ("import sys\nsys.exit(0)\n", "raised", ""),
        ("raise KeyboardInterrupt\n", "raised", ""),
        (in_main("raise ValueError('my own mistake')"), "raised", ""),
        (in_worker("raise ValueError('my own mistake')"), "raised", ""),
        ("import nonsense_that_is_not_installed\n", "raised", ""),
        (FORGE + GOOD, "tampered", ""),
        (bent("class Images", f"{REPLACE}\nclass Images"), "tampered", "DataLoader.__iter__"),
        (bent("def make_loader() -> DataLoader:", f"{FAKE_WORKERS}\ndef make_loader():").replace(
            "return DataLoader(dataset", "return Fake(dataset"), "other-workers", ""),
        (in_main("import os; os.killpg(0, 9)"), "unfinished", "killed by signal 9"),
        (in_main("import os; os.kill(os.getpid(), 19)"), "stalled", ""),
        (in_main("raise ValueError('x' * 30_000_000)"), "raised", ""),
        (in_main("raise ValueError('bad text ' + chr(0xd800))"), "raised", ""),
        (in_main("raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})"), "raised", ""),
    ],
)  # fmt: skip
def test_a_program_that_ends_badly_or_cheats_is_not_accepted(check: Check, text: str, finding: str, words: str) -> None:
    """The judge names what happened; exit code 1."""
    verdict = check("pickle", text)
    found = {item.id: item for item in verdict.findings}
    assert finding in found and verdict.exit_code == 1
    assert words in " ".join(row.observed for row in found[finding].evidence)


HANG = "; __import__('threading').Event().wait()"


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.kill(os.getppid(), 9)",
        "import os; os.kill(os.getppid(), 2)",
        "import ctypes; ctypes.CDLL(None).prctl(15, b'caf\\xe9')",
        "import sys; sys.stdout.write('no end of line ' * 1_000_000)",
    ],
)
def test_the_watcher_is_not_disturbed(check: Check, code: str) -> None:
    """Signals to it, a name that is no text, a line without end: a healthy program is still found healthy."""
    assert check("pickle", in_main(code)).findings == []


@pytest.mark.parametrize(
    "code",
    [
        "import os; open(os.environ['LOADER_LAB_STACKS'], 'wb').write(bytes([255]) * 99)" + HANG,
        "import os; f = os.environ['LOADER_LAB_STACKS']; os.unlink(f); os.mkdir(f)" + HANG,
        "import os; f = os.environ['LOADER_LAB_STACKS']; os.unlink(f); os.mkfifo(f)" + HANG,
        "import subprocess; [subprocess.Popen(['sleep', '1000']) for _ in range(100)]" + HANG,
    ],
)
def test_a_hang_is_found_whatever_is_done_to_the_stacks(check: Check, code: str) -> None:
    """The file they are written to may be gone, a folder or a pipe, and a hundred processes may not answer."""
    assert [finding.id for finding in check("pickle", in_main(code)).findings] == ["stalled"]


def test_garbage_on_the_output_is_no_evidence(check: Check) -> None:
    """What a program prints is kept, cut at a limit, and changes nothing."""
    forged = '{"kind": "end"}\\n{"kind": "exit", "status": 0}'
    verdict = check("pickle", f"print('''{forged}''')\nfor _ in range(9999):\n    print('garbage' * 20)\n{GOOD}")
    printed = [event for event in verdict.history.all("output") if event["stream"] == "stdout"]
    assert verdict.exit_code == 0
    assert printed[-1]["cut"] and sum(len(event["text"]) for event in printed) < 1 << 19


def test_a_file_named_like_a_module_is_refused(run, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """torch.py would be imported in place of torch."""
    path = tmp_path / "torch.py"
    path.write_text(GOOD)
    verdict = run("pickle", "check", path)
    assert "rename the file" in verdict.findings[0].statement and verdict.exit_code == 2


def test_its_own_words_are_shown(check: Check) -> None:
    """An exception from a worker arrives with its type and its message."""
    message = check("pickle", in_worker("raise ValueError('my own mistake')")).findings[0].message
    assert "my own mistake" in message
