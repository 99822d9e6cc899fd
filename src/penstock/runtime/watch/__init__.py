"""A worker's look at itself: what its threads do, how long its steps take and where, and whether its loss is sane."""
