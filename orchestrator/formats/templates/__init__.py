"""What people write as templates, and what bounds them."""
