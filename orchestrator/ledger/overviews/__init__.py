"""All pipelines at once, for those who look: what their last fires and flows came to, and what is wrong."""
