"""Templates and secrets by each interface."""
