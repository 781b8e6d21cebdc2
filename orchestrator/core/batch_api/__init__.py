"""What programs post to our Batch API, which has the form of OpenAI's: files, batches, and what comes next for each."""
