"""What a robot is and how it moves. Imports nothing else of Excitor."""
