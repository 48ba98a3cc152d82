"""What is said about streams."""

from labs.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
