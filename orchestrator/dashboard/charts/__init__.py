"""Charts as SVG, from values: pure functions."""
