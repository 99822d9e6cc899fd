"""A layer that was measured at one batch size is known at the others."""

import numpy as np

from penstock.predict.lab.fitting.layer_memory_fitting import remember_layers

from .made_up import conv

OFF = np.log(1.3)


def _both(*off: float) -> np.ndarray:
    """The usual time and the mean are off alike."""
    return np.column_stack([off, off])


def test_a_known_layer_is_corrected_by_what_it_was_off_at_other_batch_sizes() -> None:
    memory = remember_layers([conv(64, 56), conv(128, 28)], _both(OFF, -OFF))
    known, other, never = memory.corrections([conv(64, 56), conv(128, 28), conv(96, 28)])[:, 0]
    assert 0.7 * OFF < known < OFF
    assert -OFF < other < -0.7 * OFF
    assert never == 0.0


def test_rows_of_a_similar_size_count_for_more() -> None:
    small, large = conv(64, 56, batch=4), conv(64, 56, batch=256)
    memory = remember_layers([small, large], _both(OFF, -OFF))
    near_small, near_large = memory.corrections([conv(64, 56, batch=8), conv(64, 56, batch=128)])[:, 0]
    assert near_small > 0 > near_large


def test_one_outlier_does_not_say_everything() -> None:
    memory = remember_layers([conv(64, 56)], _both(3.0))
    assert memory.corrections([conv(64, 56)]).max() < 0.4


def test_the_usual_time_and_the_mean_are_corrected_apart() -> None:
    memory = remember_layers([conv(64, 56)], np.array([[OFF, 0.0]]))
    usual, mean = memory.corrections([conv(64, 56)])[0]
    assert usual > 0.7 * OFF
    assert mean == 0.0
