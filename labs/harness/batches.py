"""What a batch holds: the ids of its samples, and for each of them a digest and a signature."""

import hashlib
from typing import Any

DIGESTED = 4096
SIGNED = 64


class NotAProgram(Exception):
    """The file does not keep the contract: a function make_loader() that returns a DataLoader of (data, ..., ids)."""


def look_into(batch: Any) -> dict[str, Any]:
    try:
        return describe(batch)
    except NotAProgram:
        raise
    except Exception as error:
        raise NotAProgram(f"a batch holds something that cannot be looked into: {error}") from None


def describe(batch: Any) -> dict[str, Any]:
    """What was delivered: the id of each sample, and for each of its tensors a digest and a coarse signature.

    A boolean tensor right before the ids is a mask: where it is False there is padding, which is counted and otherwise
    not looked at.
    """
    import torch

    if not isinstance(batch, (tuple, list)) or len(batch) < 2 or not all(isinstance(x, torch.Tensor) for x in batch):
        raise NotAProgram(f"a batch must be (tensor, ..., ids), and this one is {type(batch).__name__}")
    *fields, ids = batch
    if ids.dim() != 1 or ids.is_floating_point() or any(tensor.shape[:1] != ids.shape for tensor in fields):
        raise NotAProgram("the last element of a batch must be the ids of its samples, one integer a sample")
    mask = fields.pop() if len(fields) > 1 and fields[-1].dtype == torch.bool and fields[-1].dim() == 2 else None
    looks: list[list[tuple[str, str]]] = []
    for tensor in fields if len(ids) else []:
        if mask is not None and tensor.shape[:2] == mask.shape:
            looks.append([look for one, real in zip(tensor, mask, strict=True) for look in look_at(one[real][None])])
        else:
            looks.append(look_at(tensor))
    return {
        "ids": ids.tolist(),
        "digests": [[look[sample][0] for look in looks] for sample in range(len(ids))],
        "signatures": [[look[sample][1] for look in looks] for sample in range(len(ids))],
        "bytes": sum(tensor.nbytes for tensor in fields),
        "padding": None if mask is None else [int((~mask).sum()), mask.numel()],
    }


def look_at(tensor: Any) -> list[tuple[str, str]]:
    """The digest and the signature of each sample in a tensor.

    The digest says whether two contents are the same. The signature (shape, kind of number, and the values at a few
    dozen places, scaled to a byte) says whether a content is what it should be, with room for a conversion that rounds
    differently.
    """
    import torch

    flat = tensor.detach().reshape(len(tensor), -1)
    # Fibonacci hashing: places all over the tensor, in no column or row, and always the same ones.
    places = torch.arange(min(DIGESTED, flat.shape[1])) * 2654435761 % flat.shape[1] if flat.shape[1] else []
    some = flat[:, places].contiguous()
    few = some[:, :SIGNED]
    few = ((few.float() * 255).round() if few.is_floating_point() else few).clamp(0, 255).to(torch.uint8).numpy()
    look = f"{'x'.join(map(str, tensor.shape[1:]))}/{'float' if tensor.is_floating_point() else 'integer'}"
    return [
        (hashlib.blake2b(row.tobytes(), digest_size=8).hexdigest(), f"{look}/{few[sample].tobytes().hex()}")
        for sample, row in enumerate(some.view(torch.uint8).numpy())
    ]


def ids_of(batch: Any) -> list[int]:
    """The ids of a batch as it comes from a worker; none where it has not got its final form yet."""
    try:
        return [int(id) for id in batch[-1].tolist()]
    except Exception:
        return []
