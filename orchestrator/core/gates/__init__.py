"""Why nothing is sent: ordered gates, breakers, brakes, budgets, back-off while nothing or only refusals come."""
