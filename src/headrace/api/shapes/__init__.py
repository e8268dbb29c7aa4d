"""The forms of answers, for the contract in OpenAPI: one file for each group of routes.

Answers are sent as they are: nothing is checked at run time. No two forms have one name.
"""
