"""The robots that come with Excitor, as data: one TOML file each."""
