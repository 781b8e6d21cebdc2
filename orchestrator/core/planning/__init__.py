"""What a run will take and cost before it is sent."""
