"""What is said about memory."""

from labs.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
