"""Short functions named after a behaviour, each with one sentence that says it."""
