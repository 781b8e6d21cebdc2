"""When to ask for which outstanding job, and what was learned of an endpoint's times and retention."""
