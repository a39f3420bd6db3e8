"""Does a log show what a program was to do, and when? The manifest's plan against what came back."""
