"""The service's own Batch: what comes next for one, how it is packed, which row is which, when it is too late."""
