"""Programs that robot controllers run: plan -> files, and back from files to the motion they command."""
