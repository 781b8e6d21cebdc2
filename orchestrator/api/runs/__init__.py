"""Finding a run, its remembered settings, asking its process, what messages say; used by all other rooms of api."""
