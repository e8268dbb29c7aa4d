"""The version of Headrace, for every room: what is kept on disk names it."""

VERSION = "0.1.0"
