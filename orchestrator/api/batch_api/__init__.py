"""What programs can ask of the Batch API: files and batches, and what carries them on."""
