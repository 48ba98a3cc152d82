"""What is said about threads."""

from labs.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
