"""One run, `serve`, `tick` or the wait for a flow, in the foreground of this process."""
