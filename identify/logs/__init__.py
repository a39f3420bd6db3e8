"""Log formats, one module each; `read` finds a file's format and returns its content as a recording."""
