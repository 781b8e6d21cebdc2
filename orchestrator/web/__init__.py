"""The listener, which alone takes requests: it refuses who has no token, notes the rest, and decides nothing else."""
