"""The world of a worker: process groups that can be given up, and the way from one world to the next."""
