"""The one service under API and dashboard: what people may ask of the platform, and what they are shown."""
