"""What claims need from inside a container: functions that run real loaders and say what they saw."""
