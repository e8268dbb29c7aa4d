"""The page sink."""
