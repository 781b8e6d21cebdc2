"""What comes back: answers, webhooks, and what they mean for a job."""
