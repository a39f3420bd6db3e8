"""ROS 2 trajectory controllers."""
