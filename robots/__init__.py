"""Robot descriptions, kinematics and dynamics. Imports nothing else of Excitor."""
