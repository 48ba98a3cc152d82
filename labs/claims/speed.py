"""What is said about speed."""

from labs.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
