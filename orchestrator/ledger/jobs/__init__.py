"""Reads and writes of jobs: claims, submissions, results, cancellations, reuse."""
