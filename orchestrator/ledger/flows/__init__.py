"""Pipelines, fires, flows, and rows handed from stage to stage."""
