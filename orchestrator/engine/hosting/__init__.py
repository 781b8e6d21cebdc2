"""Which runs and endpoints this process serves, and how each stands."""
