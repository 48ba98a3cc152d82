"""What is said about failures."""

from labs.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
