"""The audit of domains: attempts to be paid for nothing, and what came of them. The gate is `train.domains.audit`."""
