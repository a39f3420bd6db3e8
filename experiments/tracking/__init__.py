"""How well a robot would follow a motion with and without the identified model as feed-forward."""
