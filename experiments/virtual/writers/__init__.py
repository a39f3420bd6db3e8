"""How is what a virtual robot recorded written as vendors' loggers write it? One module a format."""
