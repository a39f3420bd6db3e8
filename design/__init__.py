"""Choose the motion whose measurements say most about the robot."""
