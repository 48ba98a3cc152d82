"""What is said about starting."""

from labs.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
