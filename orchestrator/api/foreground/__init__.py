"""One run, or `serve`, in the foreground of this process."""
