"""Serverless endpoints by each interface, GPU pools, worker bounds, prices."""
