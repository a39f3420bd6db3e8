"""The compiled recursion: everything that is evaluated hundreds of thousands of times.

All of it works on blocks of up to LANES samples held in one flat workspace, one row of LANES numbers a quantity,
so that the compiler turns the innermost loops into vector instructions. Rows have fixed places (`slots`).
"""
