"""Nexmark as a race: each query by itself from files to its last change, beside the neighbours."""
