"""What programs have posted to the Batch API: files, and batches, which are runs."""
