"""The demo: a shop whose changes are pushed, its views on the screen, and the proof at the end."""
