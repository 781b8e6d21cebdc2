"""Several endpoints that do the same work for a run: how much each may take, which is well, and what is moved."""
