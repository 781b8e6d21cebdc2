"""History in samples: buckets and their quantiles, how long a sample is kept, rates between two of them."""
