"""Monitoring of a robot cycle by cycle, from growing logs or folders of logs."""
