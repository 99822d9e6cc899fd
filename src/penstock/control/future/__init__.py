"""What has not happened yet: quotes, forecasts, the planned timeline, and the past under another policy."""
