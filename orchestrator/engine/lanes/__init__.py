"""The lanes by which jobs leave: how each makes a request of a job, and what becomes of the job by the answer."""
