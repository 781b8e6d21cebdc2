"""The service's own Batch (beta), as a pure world: drafts, their workers, what is shown of them."""
