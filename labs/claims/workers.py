"""What is said about workers."""

from labs.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
