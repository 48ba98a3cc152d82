"""What is said about batches."""

from labs.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
