"""All pipelines, and all endpoints, at once, for those who look: by a few questions each."""
