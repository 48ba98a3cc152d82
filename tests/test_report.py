"""The report of a run, from hand-written records: the job in one line, evidence that cannot be misread, the curve."""

import pytest

from labs.catalog import LABS
from labs.harness.findings import FINDINGS, megabytes
from labs.harness.history import History
from labs.harness.report import Page, health, job_in_words, printed, show_shared_memory
from labs.harness.words import did_you_mean, sentence
from tests import histories as h


@pytest.mark.parametrize("lab", LABS)
def test_every_job_is_one_line_of_a_terminal(lab: str) -> None:
    """Samples, epochs, workers, and how they are started where the job says so."""
    for role in ("failure", "control"):
        job = LABS[lab].job(role, LABS[lab].limits.start_method)
        words = job_in_words(job, job["start_method"])
        assert f"Job: {LABS[lab].samples} samples, {job['epochs']} epoch" in words and len(words) <= 78
        assert ("started with" in words) == bool(job["workers"] and job["start_method"])


def test_a_job_says_what_is_judged() -> None:
    """The start method, the size of batches, the ranks; and that any number of workers will do."""
    lines = {}
    for name in ("pickle", "deadlock", "ragged", "ranks", "starve"):
        job = LABS[name].job("failure", LABS[name].limits.start_method)
        lines[name] = job_in_words(job, job["start_method"])
    assert lines == {
        "pickle": "Job: 48 samples, 1 epoch, 2 workers started with forkserver",
        "deadlock": "Job: 48 samples, 1 epoch, 2 workers",
        "ragged": "Job: 320 samples, 1 epoch, batches of about 32, 2 workers started with fork",
        "ranks": "Job: 90 samples, 1 epoch, 4 workers in 2 ranks, started with fork",
        "starve": "Job: 160 samples, 1 epoch, any number of workers",
    }


def test_what_may_be_dropped_has_two_ends() -> None:
    """As many as there are, or one less in each epoch, and no more than there are."""
    job = {"epochs": 4, "may_drop": 1, "most_waiting": None}
    record = History([h.run_event(**job), *h.healthy()[1:]])
    assert health(record)[0].expected == "12 to 16"


def test_evidence_names_what_its_numbers_are() -> None:
    """Samples that are missing are ids; an exception has a file and a line."""
    lost = FINDINGS["lost"](History([*h.healthy()[:4], h.epoch_end(), *h.done()]))
    assert lost and ("ids missing", "2, 3") in {(row.what, row.observed) for row in lost.evidence}
    run = {**h.run_event(), "program": "labs/mine.py"}
    raised = FINDINGS["raised"](History([run, h.container(), h.error('File "mine.py", line 7, in f\nboom'), *h.done()]))
    assert raised and (raised.evidence[0].what, raised.evidence[0].observed) == ("exception at", "mine.py:7, in f")


@pytest.mark.parametrize(("used", "curve"), [(9, False), (10, True)])
def test_a_flat_curve_is_left_out(used: int, curve: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Below a tenth of /dev/shm there is nothing to see."""
    record = History([h.run_event(), h.container(), h.event("sample", shm_used=used, processes={}), h.epoch_end()])

    def write(page: Page) -> None:
        show_shared_memory(page, record)

    printed(write)
    assert ("peak" in capsys.readouterr().out) == curve


def test_sizes_are_in_the_unit_that_fits() -> None:
    """The same units everywhere, which are docker's."""
    sizes = [0, 4 << 10, 64 << 20, 2 << 30, 24105 << 20]
    assert [megabytes(size) for size in sizes] == ["0.0 MB", "4 KB", "64.0 MB", "2.0 GB", "23.5 GB"]


def test_words() -> None:
    """A sentence leaves names as they are spelled; a question is asked only where something is near."""
    assert [sentence(text) for text in ("it waits", "num_workers=0: it waits", "it waits.")] == [
        "It waits.",
        "num_workers=0: it waits.",
        "It waits.",
    ]
    assert did_you_mean("smh", LABS) == "did you mean shm? " and did_you_mean("zzzzzz", LABS) == ""
