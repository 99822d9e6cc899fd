"""From a model and devices to a plan: uniform plans, search, polish, a ranking, and the plan in words."""
