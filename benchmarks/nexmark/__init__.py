"""Nexmark as views: its 23 queries maintained together over a stream of auctions and bids."""
