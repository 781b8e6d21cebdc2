"""What happens to any request on its way in and out."""
