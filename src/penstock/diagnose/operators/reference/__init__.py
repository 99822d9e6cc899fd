"""What operators compute, in float64 NumPy: forward, backward and updates, written for reading and not for speed.

Nothing here calls PyTorch, so a broken build of it cannot vouch for itself. Shapes stand beside the code; what
frameworks do differently (where epsilon stands, which variance runs, gelu by erf or tanh) is an argument here.
"""
