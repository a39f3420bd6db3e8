"""Reading robot files: TOML and URDF to robots. The way in is `excitor.robots.load`."""
