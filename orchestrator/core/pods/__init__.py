"""Pods that work for a run: what each is made of, where it stands, and when another one takes its place."""
