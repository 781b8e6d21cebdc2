"""The job operations of an endpoint, their limits, answers and refusals."""
