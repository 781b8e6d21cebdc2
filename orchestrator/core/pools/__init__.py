"""Several endpoints that do the same work, as one: where a job goes, which of them is well, and what is moved."""
