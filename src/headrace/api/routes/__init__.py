"""The routes, one file a group; what each needs stands in ``headrace.api.actions``."""
