"""Settle, reconcile, cancel what is owed, prune."""
