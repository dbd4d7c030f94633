"""Rollouts: what a policy was asked, what it sampled, token for token, and who samples."""
