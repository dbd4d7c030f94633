"""Repositories: small packages of several files, changed by a diff or by whole files, judged by what they then do."""
