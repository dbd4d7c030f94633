"""Distillation. May import train and what train may import; neither train nor serving may import it."""
