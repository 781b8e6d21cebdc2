"""One HTTP request out: carriers, time-outs about silence, proxies, places on the line."""
