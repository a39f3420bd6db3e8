"""Arms as their makers and public documents describe them: data only, read by `excitor.robots.files.presets`."""
