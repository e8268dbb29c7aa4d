"""The mail sink."""
