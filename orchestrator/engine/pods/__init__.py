"""Pods that work for runs: asked for, started again, watched, replaced, and stopped or terminated at the end."""
