"""The conductor's own work: it is not disturbed by a dying worker, and it looks into batches as they are."""

import signal
from collections.abc import Iterator

import pytest
import torch

from labs.harness.batches import NotAProgram, describe
from labs.harness.conductor import undisturbed


@pytest.fixture
def torchs_handler() -> Iterator[None]:
    """A handler that raises, as torch's does when a worker has died."""

    def handler(number: int, frame: object) -> None:
        raise RuntimeError("a worker died")

    before = signal.signal(signal.SIGCHLD, handler)
    yield
    signal.signal(signal.SIGCHLD, before)


def test_a_worker_that_dies_in_the_middle_of_our_work_is_heard_of_after_it(torchs_handler: None) -> None:
    """The work is done to its end, and then torch's exception is raised."""
    done = False
    with pytest.raises(RuntimeError, match="a worker died"), undisturbed():
        signal.raise_signal(signal.SIGCHLD)
        done = True
    assert done
    with undisturbed():
        pass


def test_padding_is_counted_and_not_looked_at() -> None:
    """What a mask leaves out does not change what a sample is."""
    ids, mask = torch.tensor([4, 5]), torch.tensor([[True, True, False], [True, True, True]])
    zeros = describe((torch.tensor([[7, 8, 0], [1, 2, 3]]), mask, ids))
    nines = describe((torch.tensor([[7, 8, 9], [1, 2, 3]]), mask, ids))
    alone = describe((torch.tensor([[7, 8]]), torch.tensor([4])))
    assert zeros["signatures"] == nines["signatures"] and zeros["digests"] == nines["digests"]
    assert zeros["signatures"][0] == alone["signatures"][0] and zeros["padding"] == [1, 6]
    assert alone["padding"] is None


def test_other_words_change_what_a_sample_is() -> None:
    """A word less, or another one, is another content."""
    ids, whole = torch.tensor([4]), torch.tensor([[True, True, True]])
    cut = torch.tensor([[True, True, False]])
    looks = {
        str(describe((torch.tensor([words]), mask, ids))["signatures"])
        for words, mask in (([7, 8, 9], whole), ([7, 8, 9], cut), ([7, 9, 9], whole))
    }
    assert len(looks) == 3


@pytest.mark.parametrize("batch", [torch.zeros(2), (torch.zeros(2, 3),), (torch.zeros(2, 3), torch.zeros(2))])
def test_what_is_no_batch_is_said(batch: object) -> None:
    """A batch is (tensor, ..., ids), and ids are whole numbers."""
    with pytest.raises(NotAProgram):
        describe(batch)
