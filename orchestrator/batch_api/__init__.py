"""The Batch API over HTTP, in the form of OpenAI's: what is asked, and what is answered. It decides nothing."""
