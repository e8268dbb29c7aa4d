"""The webhook sink."""
