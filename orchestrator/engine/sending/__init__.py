"""What leaves: who is claimed next, and the request that is made of it."""
