"""One module per controller: runs its files on a virtual clock. None of these knows how the files were written."""
