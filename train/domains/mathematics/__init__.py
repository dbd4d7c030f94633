"""Mathematics: problems from a seed, answers compared exactly, by value and by the form that was asked for."""
