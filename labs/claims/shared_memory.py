"""What is said about shared_memory."""

from labs.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
