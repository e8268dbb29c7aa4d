"""Catalyst's optimized plan lowered to nodes: one file a family of plan nodes."""
