"""What all pages share: how numbers and names are written, the robot in motion, charts, looks."""
