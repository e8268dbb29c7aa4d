"""The neighbours, each in an environment of its own, run as their users run them."""
