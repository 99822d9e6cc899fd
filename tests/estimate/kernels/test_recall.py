"""A layer that was measured at one batch size is known at the others."""

import numpy as np

from penstock.estimate.kernels.recall import Recall

from .made_up import conv

OFF = np.log(1.3)


def test_a_known_layer_is_corrected_by_what_it_was_off_at_other_batch_sizes() -> None:
    recall = Recall.learned([conv(64, 56), conv(128, 28)], np.array([OFF, -OFF]))
    known, other, never = recall.correction([conv(64, 56), conv(128, 28), conv(96, 28)])
    assert 0.7 * OFF < known < OFF
    assert -OFF < other < -0.7 * OFF
    assert never == 0.0


def test_rows_of_a_similar_size_count_for_more() -> None:
    small, large = conv(64, 56, batch=4), conv(64, 56, batch=256)
    recall = Recall.learned([small, large], np.array([OFF, -OFF]))
    near_small, near_large = recall.correction([conv(64, 56, batch=8), conv(64, 56, batch=128)])
    assert near_small > 0 > near_large


def test_one_outlier_does_not_say_everything() -> None:
    recall = Recall.learned([conv(64, 56)], np.array([3.0]))
    assert recall.correction([conv(64, 56)])[0] < 0.4
