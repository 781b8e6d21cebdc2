"""Who of several processes may write at the same time, and who is ended because the others wait for it."""
