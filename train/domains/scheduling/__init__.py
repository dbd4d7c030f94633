"""Plans judged against the best that a solver finds (OR-Tools CP-SAT); one that breaks a rule is worth 0."""
