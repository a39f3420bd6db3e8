"""Does the robot still do as its model says? `excitor watch` follows logs while they grow."""
