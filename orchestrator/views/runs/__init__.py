"""Runs in lists, the pages of a run, and reports of it, as people and programs are shown them."""
