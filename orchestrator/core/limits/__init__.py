"""Rates and concurrency: how fast requests may leave, and who shares the line; arithmetic only."""
