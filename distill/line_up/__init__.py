"""Several models beside one another: scores, speeds and costs of all of them in one run."""
