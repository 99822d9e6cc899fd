"""Deadlines: promises that are kept, as many as possible, on every kind of device.

``calendar`` plans one job on free capacity that changes late; ``layout`` plans many on all kinds; ``keeping`` has the
plans at hand; ``promises`` keeps those made and makes new ones; ``forward`` lets begin who can; ``idle`` gives away
what plans leave; ``answers`` puts it into words.
"""

from penstock.policies.deadline.answers import HeldBack, asked_again
from penstock.policies.deadline.inputs import PlanInputs, Terms
from penstock.policies.deadline.layout import Layout
from penstock.policies.deadline.policy import AT_ONCE, HOLD_S, LARGE, AtOnce, DeadlinePolicy, Hold, Large, hopes
from penstock.policies.deadline.promises import protect
from penstock.policies.deadline.turns import Growth, Turns

__all__ = [
    "AT_ONCE",
    "HOLD_S",
    "LARGE",
    "AtOnce",
    "DeadlinePolicy",
    "Growth",
    "HeldBack",
    "Hold",
    "Large",
    "Layout",
    "PlanInputs",
    "Terms",
    "Turns",
    "asked_again",
    "hopes",
    "protect",
]
