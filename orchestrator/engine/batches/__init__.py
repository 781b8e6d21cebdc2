"""The service's own batches at one endpoint: what is packed, finalized, asked for and read, a step at a time."""
