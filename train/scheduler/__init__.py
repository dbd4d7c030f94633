"""Many runs on one machine: priorities, fair shares, deadlines, preemption at the borders of a step."""
