"""One module for each noun about pipelines, and the processes that fire them."""
