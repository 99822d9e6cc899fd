"""The past under other rules: a study of one's own history, in a process of its own with an end to its patience.

A server must not stand still because somebody is curious, nor must a curious person wait for ever. The process reads
the database itself, so nobody is kept from writing; what takes too long is ended and said so.
"""

import dataclasses
import json
import math
import multiprocessing
import os
import threading
from multiprocessing.connection import Connection
from typing import Any

from penstock.control.future.past.reading import read_past
from penstock.control.platform.past_moments import past_moment
from penstock.control.state.store import History, reading
from penstock.core import InputError, PenstockError, format_duration
from penstock.policies import require_installed
from penstock.simulate import Figures, ReplayedPast, WhatIfStudy, scenarios_of, what_if
from penstock.wire import (
    CalibrationView,
    DeviationView,
    FiguresView,
    ReplayView,
    RequestError,
    TooManyError,
    WhatIfReport,
    WhatIfRequest,
    error_from,
    problem,
    stamp,
)

LIMIT_S = 300.0
"""How long one study may take."""


def study_database(url: str, wanted: WhatIfRequest, now: float) -> WhatIfReport:
    """What a database tells of a past, and of what would have come of it under other rules."""
    scenarios = scenarios_of(wanted.policies, devices=wanted.devices, cluster=wanted.cluster, shares=wanted.shares)
    until = min(past_moment(wanted.until, now), now) if wanted.until else now
    since = max(0.0, past_moment(wanted.since, until))
    if since >= until:
        raise RequestError(f"The time from {wanted.since} to {wanted.until or 'now'} is empty", "a beginning before it")
    with reading(url) as database:
        past = read_past(History(database), since, until)
    return _report(what_if(past, scenarios, anyway=wanted.anyway))


class WhatIfStudies:
    """Studies for a server: one at a time, each in a process of its own that is ended when it takes too long."""

    def __init__(self, url: str, limit_s: float = LIMIT_S) -> None:
        self._url = url
        self._limit_s = limit_s
        self._busy = threading.Lock()

    def study(self, wanted: WhatIfRequest, now: float) -> WhatIfReport:
        """A study of the server's own past; a policy in a file is for whoever reads the past without a server."""
        for name in wanted.policies:
            require_installed(name)
        if not self._busy.acquire(blocking=False):
            raise TooManyError("another study is under way", "one at a time", "Ask again in a minute")
        try:
            return WhatIfReport.model_validate_json(self._told(wanted, now))
        finally:
            self._busy.release()

    def _told(self, wanted: WhatIfRequest, now: float) -> str:
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(sender, self._url, wanted.model_dump_json(), now), daemon=True)
        process.start()
        sender.close()
        try:
            if not receiver.poll(self._limit_s):
                limit = format_duration(self._limit_s)
                raise InputError(f"the study takes longer than {limit}", f"at most {limit}", "Begin later: --since")
            answer: dict[str, Any] = json.loads(receiver.recv_bytes())
        except EOFError:
            raise InputError("the study ended without a result", hint="Ask for a shorter time") from None
        finally:
            process.kill()
            process.join()
            receiver.close()
        if "problem" in answer:
            raise error_from(answer["problem"])
        return str(answer["report"])


def _work(sender: Connection, url: str, wanted: str, now: float) -> None:
    """In the process of a study."""
    os.nice(10)
    answer: dict[str, Any]
    try:
        answer = {"report": study_database(url, WhatIfRequest.model_validate_json(wanted), now).model_dump_json()}
    except InputError as error:
        answer = {"problem": problem(error)}
    except PenstockError as error:
        answer = {"problem": problem(InputError(str(error)))}
    sender.send_bytes(json.dumps(answer).encode())
    sender.close()


def _report(study: WhatIfStudy) -> WhatIfReport:
    past, calibration = study.past, study.calibration
    return WhatIfReport.model_validate(
        {
            "since": stamp(past.since), "until": stamp(past.until), "jobs": len(past.jobs),
            "devices": sum(node.device_count for _, node in past.cluster.present()), "policy": past.policies,
            "conclusive": calibration.conclusive, "doubts": list(calibration.doubts), "notes": list(past.left_out),
            "real": _figures(calibration.real), "baseline": _replay(study.baseline),
            "replays": [_replay(each) for each in study.replays],
            "calibration": CalibrationView(
                errors={name: _number(error) for name, error in calibration.errors.items()},
                typical=_number(calibration.typical),
                deviations=[
                    DeviationView(
                        job_id=each.job_id, real_s=each.real_s, replayed_s=_number(each.replayed_s), why=each.why
                    )
                    for each in calibration.deviations
                ],
            ),
        }
    )  # fmt: skip


def _replay(replayed: ReplayedPast) -> ReplayView:
    return ReplayView(label=replayed.label, figures=_figures(replayed.figures))


def _figures(figures: Figures) -> FiguresView:
    return FiguresView.model_validate({name: _number(value) for name, value in dataclasses.asdict(figures).items()})


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
