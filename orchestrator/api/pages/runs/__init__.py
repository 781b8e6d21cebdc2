"""What the pages of runs show: all runs, one run, its failures, its jobs, one job."""
