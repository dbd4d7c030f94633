"""Domains: tasks with answers that can be checked, each a file, found by `train.domains.catalog`."""
