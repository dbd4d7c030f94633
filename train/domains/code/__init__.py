"""Code: functions to be written, completed, repaired, tested and read, judged by what they do."""
